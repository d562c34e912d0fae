//! The enumerations of libvirt's public headers: flags, states, event ids, error codes.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

use super::lexer::{self, Kind, Token};

/// `typedef enum { … } name;`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CEnum {
    pub(crate) name: String,
    pub(crate) values: Vec<(String, i64)>,
}

/// Numbers of every enumeration value seen so far.
pub(crate) type Known = BTreeMap<String, i64>;

/// Reads the enumerations of one header; values may refer to those of headers read before.
///
/// # Errors
/// When an enumeration has a value that cannot be worked out.
pub(crate) fn parse(text: &str, known: &mut Known) -> Result<Vec<CEnum>> {
    let tokens = lexer::tokens(text)?;
    let mut out = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if word(&tokens, at) == Some("typedef")
            && word(&tokens, at + 1) == Some("enum")
            && punct(&tokens, at + 2) == Some('{')
        {
            let (found, next) = enumeration(&tokens, at + 3, known)?;
            out.push(found);
            at = next;
        } else {
            at += 1;
        }
    }
    Ok(out)
}

fn word(tokens: &[Token], at: usize) -> Option<&str> {
    match &tokens.get(at)?.kind {
        Kind::Word(word) => Some(word),
        _ => None,
    }
}

fn punct(tokens: &[Token], at: usize) -> Option<char> {
    match tokens.get(at)?.kind {
        Kind::Punct(punct) => Some(punct),
        _ => None,
    }
}

fn enumeration(tokens: &[Token], mut at: usize, known: &mut Known) -> Result<(CEnum, usize)> {
    let mut values = Vec::new();
    let mut next = 0;
    while punct(tokens, at) != Some('}') {
        let line = tokens.get(at).map_or(0, |t| t.line);
        let name = word(tokens, at).with_context(|| format!("line {line}: no name"))?;
        at += 1;
        if punct(tokens, at) == Some('=') {
            let start = at + 1;
            let end = (start..tokens.len())
                .find(|i| matches!(punct(tokens, *i), Some(',' | '}')))
                .with_context(|| format!("line {line}: `{name}` does not end"))?;
            let words = tokens.get(start..end).unwrap_or_default();
            next = Expression { words, known }
                .value()
                .with_context(|| format!("line {line}: `{name}`"))?;
            at = end;
        }
        if punct(tokens, at) == Some(',') {
            at += 1;
        }
        known.insert(name.to_owned(), next);
        values.push((name.to_owned(), next));
        next += 1;
    }
    // Sentinels move with every version; nobody may rely on them. What is called so elsewhere means something:
    // an update of a network adds an element as its last.
    values.pop_if(|(name, _)| name.ends_with("_LAST"));
    let name = word(tokens, at + 1).context("an enumeration has no name")?;
    Ok((
        CEnum {
            name: name.to_owned(),
            values,
        },
        at + 3,
    ))
}

/// Numbers and names joined by `|`, `<<` and unary minus, which is all the headers use.
struct Expression<'a> {
    words: &'a [Token],
    known: &'a Known,
}

impl Expression<'_> {
    fn value(&mut self) -> Result<i64> {
        let mut value = self.shift()?;
        while self.accept('|') {
            value |= self.shift()?;
        }
        match self.words.first() {
            None => Ok(value),
            Some(rest) => bail!("{:?} is not understood", rest.kind),
        }
    }

    fn shift(&mut self) -> Result<i64> {
        let mut value = self.atom()?;
        while self.accept('<') {
            if !self.accept('<') {
                bail!("`<` is not understood");
            }
            value <<= self.atom()?;
        }
        Ok(value)
    }

    fn atom(&mut self) -> Result<i64> {
        if self.accept('-') {
            return Ok(-self.atom()?);
        }
        if self.accept('(') {
            let value = self.shift()?;
            if !self.accept(')') {
                bail!("`)` is missing");
            }
            return Ok(value);
        }
        let Some((first, rest)) = self.words.split_first() else {
            bail!("a value is missing");
        };
        self.words = rest;
        match &first.kind {
            Kind::Number(number) => Ok(*number),
            Kind::Word(name) => self
                .known
                .get(name)
                .copied()
                .with_context(|| format!("`{name}` has no value yet")),
            other => bail!("{other:?} is not a value"),
        }
    }

    fn accept(&mut self, punct: char) -> bool {
        match self.words.split_first() {
            Some((first, rest)) if first.kind == Kind::Punct(punct) => {
                self.words = rest;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_worked_out() {
        let mut known = Known::new();
        let found = parse(
            "typedef enum { A_X = 1 << 2, A_Y, /* y */\n# ifdef S\n A_LAST\n# endif\n } a;\n\
             typedef struct s s; typedef enum { B_Z = A_X | 0x1, B_LAST = 3, B_N = -1, } b;",
            &mut known,
        )
        .unwrap();
        assert_eq!(found[0].values, [("A_X".to_owned(), 4), ("A_Y".to_owned(), 5)]);
        assert_eq!(
            found[1].values,
            [("B_Z".to_owned(), 5), ("B_LAST".to_owned(), 3), ("B_N".to_owned(), -1)]
        );
    }
}
