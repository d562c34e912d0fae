//! Words of a `.x` file or a C header. Comments vanish, but the annotations in them stay with the next word.

use anyhow::{Result, bail};

/// A word and the `@key: value` lines of the comments before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) annotations: Vec<(String, String)>,
    pub(crate) line: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Word(String),
    Number(i64),
    Punct(char),
    /// A string or character literal; only headers have them.
    Literal,
}

/// Splits `text`; lines that begin with `%` or `#` are another language's and are skipped.
///
/// # Errors
/// When a comment, literal or number does not end or has no meaning.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>> {
    Lexer {
        rest: text,
        line: 1,
        annotations: Vec::new(),
    }
    .run()
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    annotations: Vec<(String, String)>,
}

impl Lexer<'_> {
    fn run(mut self) -> Result<Vec<Token>> {
        let mut out = Vec::new();
        let mut fresh_line = true;
        while let Some(c) = self.rest.chars().next() {
            if c == '\n' {
                fresh_line = true;
                self.skip(1);
            } else if c.is_whitespace() {
                self.skip(1);
            } else if fresh_line && (c == '%' || c == '#') {
                self.directive();
            } else if self.rest.starts_with("/*") {
                self.comment()?;
            } else if self.rest.starts_with("//") {
                self.skip(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else {
                fresh_line = false;
                let line = self.line;
                let kind = self.word(c)?;
                out.push(Token {
                    kind,
                    annotations: std::mem::take(&mut self.annotations),
                    line,
                });
            }
        }
        Ok(out)
    }

    fn skip(&mut self, bytes: usize) {
        let (gone, rest) = self.rest.split_at(bytes);
        self.line += gone.matches('\n').count();
        self.rest = rest;
    }

    /// A preprocessor line with its continuations.
    fn directive(&mut self) {
        loop {
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            let continued = self.rest.get(..end).is_some_and(|l| l.ends_with('\\'));
            self.skip(end);
            if !continued || self.rest.is_empty() {
                return;
            }
            self.skip(1);
        }
    }

    fn comment(&mut self) -> Result<()> {
        let Some(end) = self.rest.find("*/") else {
            bail!("line {}: comment does not end", self.line);
        };
        let body = self.rest.get(2..end).unwrap_or_default();
        self.annotations.clear();
        for line in body.lines() {
            let line = line.trim().trim_start_matches('*').trim_start();
            if let Some((key, value)) = line.strip_prefix('@').and_then(|l| l.split_once(':')) {
                self.annotations.push((key.trim().to_owned(), value.trim().to_owned()));
            }
        }
        self.skip(end + 2);
        Ok(())
    }

    fn word(&mut self, first: char) -> Result<Kind> {
        let end = |rest: &str| {
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                .unwrap_or(rest.len())
        };
        if first == '"' || first == '\'' {
            let close = self.rest.get(1..).and_then(|r| r.find(first));
            let Some(close) = close else {
                bail!("line {}: literal does not end", self.line);
            };
            self.skip(close + 2);
            return Ok(Kind::Literal);
        }
        let length = end(self.rest);
        if length == 0 {
            self.skip(first.len_utf8());
            return Ok(Kind::Punct(first));
        }
        let text = self.rest.get(..length).unwrap_or_default().to_owned();
        self.skip(length);
        if !first.is_ascii_digit() {
            return Ok(Kind::Word(text));
        }
        let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
        let number = match digits.strip_prefix("0x") {
            Some(hex) => i64::from_str_radix(hex, 16),
            None => digits.parse(),
        };
        match number {
            Ok(number) => Ok(Kind::Number(number)),
            Err(_) => bail!("line {}: `{text}` is not a number", self.line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_stay_with_the_word_after_them() {
        let words = tokens("%skip this\n/** x\n * @priority: high\n */ A = 0x10, /* b */ B").unwrap();
        assert_eq!(words.len(), 5);
        assert_eq!(words[0].annotations, [("priority".to_owned(), "high".to_owned())]);
        assert_eq!(words[2].kind, Kind::Number(16));
        assert!(words[4].annotations.is_empty());
    }

    #[test]
    fn an_open_comment_is_an_error() {
        assert!(tokens("/* never").is_err());
    }
}
