//! Every reason that a machine can fail for has an entry in `docs/troubleshooting.md`, and every entry a reason.
//!
//! An entry is a paragraph that begins with what `last_error` says, in bold, with `…` for what differs. A message is what
//! the sources of the backend and the engine make an error of.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::Finding;

/// Where the entries are.
pub(super) const DOCUMENT: &str = "docs/troubleshooting.md";

/// Whose errors become a machine's `last_error`: sources, and what makes an error of a text there.
const SOURCES: &[(&str, &[Saying])] = &[
    ("crates/libvirt-backend/src/", BACKEND),
    ("crates/providerkit/src/engine/work.rs", &[("Err", ""), ("format", "")]),
    ("crates/providerkit/src/engine/start.rs", &[("format", "")]),
];

/// What commands say: on a terminal, with the remedy.
const SHOWN_OTHERWISE: &[&str] = &[
    "crates/libvirt-backend/src/doctor/",
    "crates/libvirt-backend/src/serial.rs",
];

/// A function or macro, and what it puts before the text.
type Saying = (&'static str, &'static str);

const BACKEND: &[Saying] = &[
    ("told", ""),
    ("exhausted", ""),
    ("Never", ""),
    ("Error::new", ""),
    ("doing", "could not "),
    ("stuck.on", "… still waits for "),
];

/// Shorter texts are parts of one.
const SHORTEST: usize = 16;

/// A message: where it is, and its text with `…` for what differs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    place: String,
    text: String,
}

/// The messages of a source file; none if it is not one whose errors machines show.
///
/// # Errors
/// When it is no Rust.
pub(super) fn of(place: &str, text: &str) -> Result<Vec<Message>> {
    if SHOWN_OTHERWISE.iter().any(|source| place.starts_with(source)) {
        return Ok(Vec::new());
    }
    let sources = SOURCES.iter().find(|(source, _)| place.starts_with(source));
    let Some((_, sayings)) = sources.filter(|_| place.ends_with(".rs")) else {
        return Ok(Vec::new());
    };
    let tokens: TokenStream = text
        .parse()
        .map_err(|error| anyhow!("{error}"))
        .with_context(|| format!("reading {place}"))?;
    let mut messages = Vec::new();
    walk(tokens, sayings, place, &mut messages);
    Ok(messages)
}

fn walk(tokens: TokenStream, sayings: &[Saying], place: &str, messages: &mut Vec<Message>) {
    let mut name = String::new();
    let mut test = false;
    // Within `let doing = || format!("…");`, or a field of that name.
    let mut pending: Option<&Saying> = None;
    for token in tokens {
        match token {
            TokenTree::Ident(ident) if name.ends_with("::") || name.ends_with('.') => name.push_str(&ident.to_string()),
            TokenTree::Ident(ident) => name = ident.to_string(),
            TokenTree::Punct(mark) => {
                match mark.as_char() {
                    '=' | ':' if pending.is_none() => {
                        pending = sayings.iter().find(|(saying, _)| *saying == "doing" && name == "doing");
                    }
                    ';' | ',' => pending = None,
                    _ => {}
                }
                match mark.as_char() {
                    mark @ (':' | '.') => name.push(mark),
                    '!' => {}
                    _ => name.clear(),
                }
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
                test |= group.stream().to_string().replace(' ', "") == "cfg(test)";
            }
            TokenTree::Group(group) => {
                let says = |saying: &str| {
                    let before = name.strip_suffix(saying);
                    before.is_some_and(|before| before.is_empty() || before.ends_with([':', '.']))
                };
                let said = pending.or_else(|| sayings.iter().find(|(saying, _)| says(saying)));
                match said {
                    // What is said only in tests is said to nobody.
                    _ if test && group.delimiter() == Delimiter::Brace => test = false,
                    Some((_, before)) if pending.is_some() || group.delimiter() == Delimiter::Parenthesis => {
                        let mut texts = Vec::new();
                        literals(group.stream(), &mut texts);
                        let texts = texts.iter().map(|text| format!("{before}{}", plain(text)));
                        let texts = texts.filter(|text| text.contains(' ') && text.chars().count() >= SHORTEST);
                        messages.extend(texts.map(|text| Message {
                            place: place.to_owned(),
                            text,
                        }));
                    }
                    _ => walk(group.stream(), sayings, place, messages),
                }
                name.clear();
            }
            TokenTree::Literal(_) => name.clear(),
        }
    }
}

fn literals(tokens: TokenStream, texts: &mut Vec<String>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => literals(group.stream(), texts),
            TokenTree::Literal(literal) => {
                texts.extend(syn::parse_str::<syn::LitStr>(&literal.to_string()).map(|text| text.value()));
            }
            _ => {}
        }
    }
}

/// As a reader sees it: without back-ticks, and with `…` for what is filled in.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '`' => {}
            '{' if rest.peek() == Some(&'{') => {
                rest.next();
                plain.push('{');
            }
            '{' => {
                while rest.next_if(|c| *c != '}').is_some() {}
                rest.next();
                plain.push('…');
            }
            '}' if rest.peek() == Some(&'}') => {}
            c => plain.push(c),
        }
    }
    plain
}

/// What lacks an entry, and which entries are for nothing.
pub(super) fn check(messages: &[Message], document: &str) -> Vec<Finding> {
    let entries: Vec<&str> = document
        .lines()
        .filter_map(|line| Some(line.strip_prefix("**")?.split_once("**")?.0))
        .collect();
    let mut used: BTreeSet<&str> = BTreeSet::new();
    let mut findings = Vec::new();
    for message in messages {
        let fits: Vec<&str> = entries
            .iter()
            .copied()
            .filter(|entry| covers(entry, &message.text))
            .collect();
        if fits.is_empty() {
            let what = format!("\"{}\" has no entry in {DOCUMENT}", message.text);
            findings.push(Finding::new(&message.place, what));
        }
        used.extend(fits);
    }
    let stale = entries.iter().filter(|entry| !used.contains(*entry));
    findings.extend(stale.map(|entry| Finding::new(DOCUMENT, format!("nothing says \"{entry}\" any more"))));
    findings
}

/// Whether an entry's parts are in the message, in order, from its beginning on.
fn covers(entry: &str, message: &str) -> bool {
    let mut parts = entry.split('…');
    let Some(mut rest) = parts.next().and_then(|first| message.strip_prefix(first)) else {
        return false;
    };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: &str = "crates/libvirt-backend/src/pool.rs";

    fn texts(source: &str) -> Vec<String> {
        of(PLACE, source)
            .unwrap()
            .into_iter()
            .map(|message| message.text)
            .collect()
    }

    #[test]
    fn messages_are_found_as_readers_see_them() {
        let source = r#"
            fn a() -> Result<(), Failure> {
                call().doing(|| format!("look up pool `{name}`"))?;
                let doing = || format!("start domain `{name}`");
                let _ = crate::Error::new("cannot be read at all");
                info!("is no message");
                Err(Failure::told(format!("volume `{}` is not there; {{stage}} it", x)))
            }
            #[cfg(test)]
            mod tests { fn b() { Failure::told("only in a test"); } }
        "#;
        assert_eq!(
            texts(source),
            [
                "could not look up pool …",
                "could not start domain …",
                "cannot be read at all",
                "volume … is not there; {stage} it"
            ]
        );
        assert_eq!(of("crates/cloud-init/src/lib.rs", source).unwrap(), []);
    }

    #[test]
    fn what_has_no_entry_and_what_is_for_nothing_is_found() {
        let messages = of(PLACE, r#"fn a() { told("volume `{}` is gone") }"#).unwrap();
        assert_eq!(check(&messages, "**volume … is gone** — look.\n"), []);
        assert_eq!(check(&messages, "**volume …** — look.\n"), []);
        let findings = check(&messages, "**pool … is gone** — look.\n");
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].what.contains("has no entry"), "{findings:?}");
        assert!(findings[1].what.contains("any more"), "{findings:?}");
    }
}
