//! Recursive descent over the words of a `.x` file.

use anyhow::{Result, bail};

use super::{
    ast::{Constant, Enum, Field, File, Shape, Struct, Type, Union, Value, Variant},
    lexer::{self, Kind, Token},
};

/// Reads one protocol description.
///
/// # Errors
/// Names the line at which the text stops following the grammar.
pub(crate) fn parse(text: &str) -> Result<File> {
    let tokens = lexer::tokens(text)?;
    let mut parser = Parser { tokens: &tokens, at: 0 };
    let mut file = File::default();
    while let Some(word) = parser.take_word() {
        match word.as_str() {
            "const" => file.constants.push(parser.constant()?),
            "typedef" => file.typedefs.push(parser.field()?),
            "struct" => file.structs.push(parser.structure()?),
            "enum" => file.enums.push(parser.enumeration()?),
            "union" => file.unions.push(parser.union()?),
            other => return parser.fail(&format!("`{other}` begins nothing")),
        }
    }
    if parser.at < tokens.len() {
        return parser.fail("a definition was expected");
    }
    Ok(file)
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
}

impl Parser<'_> {
    fn constant(&mut self) -> Result<Constant> {
        let name = self.word()?;
        self.expect('=')?;
        let value = self.value()?;
        self.expect(';')?;
        Ok(Constant { name, value })
    }

    fn structure(&mut self) -> Result<Struct> {
        let name = self.word()?;
        self.expect('{')?;
        let mut fields = Vec::new();
        while !self.accept('}') {
            fields.push(self.field()?);
        }
        self.expect(';')?;
        Ok(Struct { name, fields })
    }

    fn enumeration(&mut self) -> Result<Enum> {
        let name = self.word()?;
        self.expect('{')?;
        let mut variants = Vec::new();
        while !self.accept('}') {
            let mut annotations = std::collections::BTreeMap::<String, Vec<String>>::new();
            for (key, value) in self.tokens.get(self.at).into_iter().flat_map(|t| &t.annotations) {
                annotations.entry(key.clone()).or_default().push(value.clone());
            }
            let name = self.word()?;
            self.expect('=')?;
            let Value::Number(value) = self.value()? else {
                return self.fail("an enum value must be a number");
            };
            self.accept(',');
            variants.push(Variant {
                name,
                value,
                annotations,
            });
        }
        self.expect(';')?;
        Ok(Enum { name, variants })
    }

    fn union(&mut self) -> Result<Union> {
        let name = self.word()?;
        self.keyword("switch")?;
        self.expect('(')?;
        self.keyword("int")?;
        self.word()?;
        self.expect(')')?;
        self.expect('{')?;
        let mut arms = Vec::new();
        while !self.accept('}') {
            self.keyword("case")?;
            let tag = self.word()?;
            self.expect(':')?;
            arms.push((tag, self.field()?));
        }
        self.expect(';')?;
        Ok(Union { name, arms })
    }

    fn field(&mut self) -> Result<Field> {
        let ty = self.ty()?;
        let optional = self.accept('*');
        let name = self.word()?;
        let shape = if optional {
            Shape::Optional
        } else if self.accept('[') {
            let length = self.value()?;
            self.expect(']')?;
            Shape::Fixed(length)
        } else if self.accept('<') {
            let max = if self.accept('>') {
                None
            } else {
                let max = self.value()?;
                self.expect('>')?;
                Some(max)
            };
            Shape::AtMost(max)
        } else {
            Shape::One
        };
        self.expect(';')?;
        Ok(Field { name, ty, shape })
    }

    fn ty(&mut self) -> Result<Type> {
        let word = self.word()?;
        Ok(match word.as_str() {
            "unsigned" => match self.peek_word() {
                Some("int") => self.then(Type::UnsignedInt),
                Some("hyper") => self.then(Type::UnsignedHyper),
                Some("char") => self.then(Type::UnsignedChar),
                Some("short") => self.then(Type::UnsignedShort),
                _ => Type::UnsignedInt,
            },
            "int" => Type::Int,
            "hyper" => Type::Hyper,
            "double" => Type::Double,
            "char" => Type::Char,
            "short" => Type::Short,
            "opaque" => Type::Opaque,
            "string" => Type::String,
            _ => Type::Named(word),
        })
    }

    fn then(&mut self, ty: Type) -> Type {
        self.at += 1;
        ty
    }

    fn peek_word(&self) -> Option<&str> {
        match self.tokens.get(self.at).map(|t| &t.kind) {
            Some(Kind::Word(word)) => Some(word),
            _ => None,
        }
    }

    fn take_word(&mut self) -> Option<String> {
        let word = self.peek_word()?.to_owned();
        self.at += 1;
        Some(word)
    }

    fn word(&mut self) -> Result<String> {
        match self.take_word() {
            Some(word) => Ok(word),
            None => self.fail("a name was expected"),
        }
    }

    fn keyword(&mut self, keyword: &str) -> Result<()> {
        if self.peek_word() == Some(keyword) {
            self.at += 1;
            return Ok(());
        }
        self.fail(&format!("`{keyword}` was expected"))
    }

    fn value(&mut self) -> Result<Value> {
        match self.tokens.get(self.at).map(|t| &t.kind) {
            Some(Kind::Number(number)) => {
                self.at += 1;
                Ok(Value::Number(*number))
            }
            Some(Kind::Word(_)) => Ok(Value::Name(self.word()?)),
            _ => self.fail("a number was expected"),
        }
    }

    fn accept(&mut self, punct: char) -> bool {
        let there = self.tokens.get(self.at).is_some_and(|t| t.kind == Kind::Punct(punct));
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, punct: char) -> Result<()> {
        if self.accept(punct) {
            return Ok(());
        }
        self.fail(&format!("`{punct}` was expected"))
    }

    fn fail<T>(&self, what: &str) -> Result<T> {
        let line = self
            .tokens
            .get(self.at)
            .or_else(|| self.tokens.last())
            .map_or(0, |t| t.line);
        bail!("line {line}: {what}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_construct_is_read() {
        let file = parse(
            "const MAX = 8; typedef opaque uuid[16]; typedef text *opt;\n\
             struct s { unsigned a; unsigned hyper b<MAX>; uuid c; char d[2]; string e<>; };\n\
             enum procs { /* @priority: high */ P_ONE = 1, P_TWO = 2 };\n\
             union u switch (int type) { case A: int i; };",
        )
        .unwrap();
        assert_eq!(file.constants.len(), 1);
        assert_eq!(file.typedefs[1].shape, Shape::Optional);
        let fields = &file.structs[0].fields;
        assert_eq!(fields[0].ty, Type::UnsignedInt);
        assert_eq!(fields[1].shape, Shape::AtMost(Some(Value::Name("MAX".to_owned()))));
        assert_eq!(fields[4].shape, Shape::AtMost(None));
        assert_eq!(file.enums[0].variants[0].annotations["priority"], ["high"]);
        assert!(file.enums[0].variants[1].annotations.is_empty());
        assert_eq!(file.unions[0].arms[0].0, "A");
    }

    #[test]
    fn an_error_names_the_line() {
        let error = parse("const A = 1;\nstruct s {\n int }").unwrap_err();
        assert_eq!(error.to_string(), "line 3: a name was expected");
    }
}
