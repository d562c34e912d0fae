//! Names of files, and what they are called for readers that know neither Joliet nor Rock Ridge.

use std::{collections::HashSet, fmt};

use crate::Error;

/// A file's name in the seed: 1 to 64 ASCII letters, digits, `.`, `_` and `-`, the first not `.` or `-`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileName(String);

impl FileName {
    /// Longest name that Joliet holds.
    const LIMIT: usize = 64;

    /// Checks a name.
    ///
    /// # Errors
    /// [`Error::FileName`].
    pub fn new(name: &str) -> Result<Self, Error> {
        let fits = (1..=Self::LIMIT).contains(&name.len());
        let plain = name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if fits && plain && !name.starts_with(['.', '-']) {
            Ok(Self(name.to_owned()))
        } else {
            Err(Error::FileName { name: name.to_owned() })
        }
    }

    /// One of the names cloud-init looks for, all of which are fine.
    pub(crate) fn known(name: &'static str) -> Self {
        Self(name.to_owned())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name of ISO 9660 at interchange level 2: at most 30 of `A-Z0-9_` in two parts. Ordered as directories are.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct PlainName {
    stem: String,
    extension: String,
}

impl PlainName {
    const LIMIT: usize = 30;
    const EXTENSION: usize = 8;
    /// Digits that tell names apart which would else be the same.
    const DIGITS: usize = 3;

    /// One for each of `names`, in their order, all different.
    pub(super) fn all(names: &[&str]) -> Vec<Self> {
        let mut taken = HashSet::new();
        let mut plain = Vec::with_capacity(names.len());
        for name in names {
            let wanted = Self::of(name);
            let mut tried = wanted.clone();
            let mut number = 0;
            while !taken.insert(tried.clone()) {
                tried = wanted.numbered(number);
                number += 1;
            }
            plain.push(tried);
        }
        plain
    }

    fn of(name: &str) -> Self {
        let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
        let extension: String = extension.chars().map(plain).take(Self::EXTENSION).collect();
        let stem = stem.chars().map(plain).take(Self::LIMIT - extension.len()).collect();
        Self { stem, extension }
    }

    fn numbered(&self, number: usize) -> Self {
        let room = Self::LIMIT - self.extension.len() - Self::DIGITS;
        let stem: String = self.stem.chars().take(room).collect();
        Self {
            stem: format!("{stem}{number:0width$}", width = Self::DIGITS),
            extension: self.extension.clone(),
        }
    }

    /// As it stands in a directory record.
    pub(super) fn identifier(&self) -> String {
        format!("{}.{};1", self.stem, self.extension)
    }
}

fn plain(symbol: char) -> char {
    if symbol.is_ascii_alphanumeric() {
        symbol.to_ascii_uppercase()
    } else {
        '_'
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_every_reader_can_show() {
        for name in ["meta-data", "a", "x.y_z-1", &"n".repeat(64)] {
            assert_eq!(FileName::new(name).unwrap().as_str(), name);
        }
        for name in ["", ".", "..", ".x", "-x", "a/b", "a b", "ä", &"n".repeat(65)] {
            assert!(FileName::new(name).is_err(), "{name}");
        }
    }

    #[test]
    fn plain_names_are_upper_case_and_short() {
        let names = PlainName::all(&["meta-data", "a.b.conf", &"n".repeat(64)]);
        let names: Vec<String> = names.iter().map(PlainName::identifier).collect();
        assert_eq!(names, ["META_DATA.;1", "A_B.CONF;1", &format!("{}.;1", "N".repeat(30))]);
    }

    #[test]
    fn plain_names_stay_apart() {
        let names = PlainName::all(&["a-b", "a_b", "A.B", "A-B"]);
        let names: Vec<String> = names.iter().map(PlainName::identifier).collect();
        assert_eq!(names, ["A_B.;1", "A_B000.;1", "A.B;1", "A_B001.;1"]);
    }
}
