//! A scrape, taken apart.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
};

use crate::harness::AWAIT;

/// One metric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Family {
    pub(super) kind: String,
    pub(super) help: String,
    /// In the order they are written in.
    pub(super) labels: Vec<String>,
}

/// All metrics by name.
pub(super) type Families = BTreeMap<String, Family>;

/// An HTTP/1.1 GET: everything that came back.
pub(super) fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(AWAIT)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.0\r\nHost: provider\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The body of a page that must be there.
pub(super) fn body(address: SocketAddr, path: &str) -> String {
    let answer = get(address, path);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200 "), "{path}: {head}");
    body.to_owned()
}

/// The metrics of a scrape.
pub(super) fn families(text: &str) -> Families {
    let mut families = Families::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            families.entry(name.to_owned()).or_default().help = help.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            families.entry(name.to_owned()).or_default().kind = kind.to_owned();
        } else if !line.is_empty() && !line.starts_with('#') {
            let family = families.get_mut(&family_of(line, &families)).unwrap();
            for label in labels(line).into_keys().filter(|label| label != "le") {
                if !family.labels.contains(&label) {
                    family.labels.push(label);
                }
            }
        }
    }
    families
}

/// The name a sample's type is told under.
fn family_of(line: &str, families: &Families) -> String {
    let sample = line.split(['{', ' ']).next().unwrap();
    let parts = ["_bucket", "_sum", "_count"];
    let whole = parts
        .iter()
        .filter_map(|part| sample.strip_suffix(part))
        .find(|name| families.get(*name).is_some_and(|family| family.kind == "histogram"));
    whole.unwrap_or(sample).to_owned()
}

fn labels(line: &str) -> BTreeMap<String, String> {
    let Some((_, rest)) = line.split_once('{') else {
        return BTreeMap::new();
    };
    let (labels, _) = rest.rsplit_once('}').unwrap();
    let pairs = labels.split("\",").filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once("=\"").unwrap();
            (name.to_owned(), value.trim_end_matches('"').to_owned())
        })
        .collect()
}

/// The value of the one sample with this name and these labels, if it is there.
pub(super) fn value(text: &str, name: &str, wanted: &[(&str, &str)]) -> Option<f64> {
    let of = |line: &&str| {
        let labels = labels(line);
        line.split(['{', ' ']).next() == Some(name)
            && wanted
                .iter()
                .all(|(key, value)| labels.get(*key).is_some_and(|found| found == value))
    };
    let found: BTreeSet<&str> = text.lines().filter(of).collect();
    assert!(found.len() < 2, "more than one {name}{wanted:?}: {found:?}");
    let line = found.into_iter().next()?;
    Some(line.rsplit(' ').next().unwrap().parse().unwrap())
}
