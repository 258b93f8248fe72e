//! A YAML document as a tree in which every value has its line and column.
//!
//! The size in bytes is checked before reading, and depth, nodes, documents and aliases during
//! reading, so that no file can cost more than its size suggests. A duplicate key in a mapping is
//! rejected.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{Location, Spanned};

/// Maximum size of a file in bytes.
pub const MAX_FILE_OCTETS: usize = 1024 * 1024;

/// Maximum number of documents in a file.
pub const MAX_DOCUMENTS: usize = 200;

/// Maximum number of values in a file.
const MAX_NODES: usize = 100_000;

/// Maximum nesting depth of values.
const MAX_DEPTH: usize = 32;

/// Maximum number of values that aliases repeat.
const MAX_REPLAYED: usize = 20_000;

/// A position in a file. Line and column count from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourcePosition {
    pub line: u64,
    /// In characters.
    pub column: u64,
}

impl SourcePosition {
    pub const START: Self = Self { line: 1, column: 1 };
}

impl From<Location> for SourcePosition {
    fn from(location: Location) -> Self {
        Self {
            line: location.line().max(1),
            column: location.column().max(1),
        }
    }
}

/// A value with its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The start of the value.
    pub place: SourcePosition,
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    Null,
    /// `true` or `false`; `yes` and `no` are strings.
    Flag(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    /// A mapping, in the file's order.
    Map(Vec<Entry>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key. A number or a boolean is kept as written.
    pub key: String,
    /// The start of the key.
    pub place: SourcePosition,
    pub value: Node,
}

impl Node {
    /// The value without positions.
    pub fn json(&self) -> Value {
        match &self.content {
            Content::Null => Value::Null,
            Content::Flag(flag) => Value::Bool(*flag),
            Content::Number(number) => Value::Number(number.clone()),
            Content::Text(text) => Value::String(text.clone()),
            Content::List(nodes) => Value::Array(nodes.iter().map(Self::json).collect()),
            Content::Map(entries) => Value::Object(object(entries)),
        }
    }

    /// A description of the value's type.
    pub fn kind(&self) -> &'static str {
        match &self.content {
            Content::Null => "empty",
            Content::Flag(_) => "a boolean",
            Content::Number(_) => "a number",
            Content::Text(_) => "a string",
            Content::List(_) => "a list",
            Content::Map(_) => "a mapping",
        }
    }
}

/// The position of the value at a path of keys and indexes in a YAML or JSON file, or of the
/// innermost value around it; `None` if the file cannot be read.
pub fn place_in(octets: &[u8], path: &[&str]) -> Option<SourcePosition> {
    let nodes = documents(octets).ok()?;
    nodes.first().map(|node| place_below(node, path))
}

/// Like [`place_in`], in the document of a YAML file that starts at a position.
pub fn place_in_document(
    octets: &[u8],
    start: SourcePosition,
    path: &[&str],
) -> Option<SourcePosition> {
    let nodes = documents(octets).ok()?;
    let document = nodes.iter().find(|node| node.place == start);
    document.map(|node| place_below(node, path))
}

/// The position of the value at a path below a value, or of the innermost value around it.
fn place_below(mut node: &Node, path: &[&str]) -> SourcePosition {
    for step in path {
        let inner = match &node.content {
            Content::Map(entries) => entries
                .iter()
                .find(|entry| entry.key == *step)
                .map(|entry| &entry.value),
            Content::List(nodes) => step.parse().ok().and_then(|index: usize| nodes.get(index)),
            _ => None,
        };
        let Some(inner) = inner else { break };
        node = inner;
    }
    node.place
}

/// The entries of a mapping without their positions.
pub fn object(entries: &[Entry]) -> Map<String, Value> {
    entries
        .iter()
        .map(|entry| (entry.key.clone(), entry.value.json()))
        .collect()
}

/// Reads all documents of a file; empty documents are skipped.
///
/// # Errors
/// The position of the first problem, and the problem.
pub fn documents(octets: &[u8]) -> Result<Vec<Node>, (SourcePosition, String)> {
    documents_within(octets, MAX_DOCUMENTS)
}

/// Reads all documents of a file, which may contain up to `max_documents`.
///
/// # Errors
/// As for [`documents`].
pub fn documents_within(
    octets: &[u8],
    max_documents: usize,
) -> Result<Vec<Node>, (SourcePosition, String)> {
    if octets.len() > MAX_FILE_OCTETS {
        let words = format!(
            "the file has {} bytes, at most {MAX_FILE_OCTETS} are allowed; split it",
            octets.len()
        );
        return Err((SourcePosition::START, words));
    }
    let text = std::str::from_utf8(octets).map_err(|error| {
        let before = octets.get(..error.valid_up_to()).unwrap_or_default();
        (
            end_of(before),
            "is not UTF-8; save the file as UTF-8".to_owned(),
        )
    })?;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: max_documents,
            max_depth: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: 2 * MAX_NODES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_REPLAYED,
        },
        strict_booleans: true,
        with_snippet: false,
    };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
        let place = error
            .location()
            .map_or(SourcePosition::START, SourcePosition::from);
        let words = error.without_snippet().to_string();
        let first = words.lines().next().unwrap_or_default().to_owned();
        (place, format!("cannot be read as YAML: {first}"))
    })
}

/// The position after the last valid character.
fn end_of(octets: &[u8]) -> SourcePosition {
    let text = String::from_utf8_lossy(octets);
    let last = text.rsplit('\n').next().unwrap_or_default();
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    SourcePosition {
        line: count(text.matches('\n').count()).saturating_add(1),
        column: count(last.chars().count()).saturating_add(1),
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Content>::deserialize(deserializer)?;
        Ok(Self {
            place: spanned.referenced.into(),
            content: spanned.value,
        })
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value that JSON can express")
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Null)
    }

    fn visit_none<E>(self) -> Result<Content, E> {
        Ok(Content::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Content, E> {
        Ok(Content::Flag(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Content, E> {
        Ok(Content::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Content, E> {
        Ok(Content::Number(number.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Content, E> {
        Number::from_f64(number)
            .map(Content::Number)
            .ok_or_else(|| E::custom("a number must be finite"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Content, E> {
        Ok(Content::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Content, E> {
        Ok(Content::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Content, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = access.next_element()? {
            nodes.push(node);
        }
        Ok(Content::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Content, A::Error> {
        let mut entries = Vec::new();
        let mut seen = BTreeSet::new();
        while let Some(key) = access.next_key::<Spanned<String>>()? {
            let value = access.next_value()?;
            if !seen.insert(key.value.clone()) {
                return Err(A::Error::custom("a mapping contains the same key twice"));
            }
            entries.push(Entry {
                key: key.value,
                place: key.referenced.into(),
                value,
            });
        }
        Ok(Content::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Node> {
        documents(text.as_bytes()).unwrap()
    }

    fn map(node: &Node) -> &[Entry] {
        match &node.content {
            Content::Map(entries) => entries,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lines_and_columns_count_through_all_documents_of_a_file() {
        let nodes = read("# remark\n---\na: 1\nb: [x, {c: 2}]\n---\n---\nd:\n  e: true\n");
        assert_eq!(nodes.len(), 2);
        let first = map(&nodes[0]);
        assert_eq!(first[0].place, SourcePosition { line: 3, column: 1 });
        assert_eq!(first[0].value.place, SourcePosition { line: 3, column: 4 });
        let Content::List(list) = &first[1].value.content else {
            panic!()
        };
        assert_eq!(list[0].place, SourcePosition { line: 4, column: 5 });
        assert_eq!(
            map(&list[1])[0].place,
            SourcePosition { line: 4, column: 9 }
        );
        let second = map(&nodes[1]);
        assert_eq!(
            map(&second[0].value)[0].place,
            SourcePosition { line: 8, column: 3 }
        );
        assert_eq!(
            map(&second[0].value)[0].value.place,
            SourcePosition { line: 8, column: 6 }
        );
    }

    #[test]
    fn yaml_scalars_other_than_json_types_are_strings() {
        let nodes = read(
            "{a: yes, b: true, c: 1, d: 1.5, e: '1', f: ~, g: 2026-01-01, h: 1.0.0, 1: n, i: null, j: }",
        );
        let value = nodes[0].json();
        let expected = serde_json::json!({
            "a": "yes", "b": true, "c": 1, "d": 1.5, "e": "1", "f": null, "g": "2026-01-01", "h": "1.0.0", "1": "n",
            "i": null, "j": null
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn yaml_errors_have_a_position() {
        for (text, line) in [
            ("a: 1\na: 2\n", 2),
            ("a: [1\n", 1),
            ("---\nx: 1\n---\n  y: : 1\n", 4),
            ("a: .nan\n", 1),
            ("a: *missing\n", 1),
        ] {
            let (place, words) = documents(text.as_bytes()).unwrap_err();
            assert!(place.line >= line, "{text:?} {place:?} {words}");
            assert!(!words.contains('\n'), "{words}");
        }
        let (place, _) = documents(b"a: 1\nb: \xff\n").unwrap_err();
        assert_eq!(place, SourcePosition { line: 2, column: 4 });
    }

    #[test]
    fn yaml_depth_document_count_size_and_aliases_are_limited() {
        let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
        assert!(documents(deep.as_bytes()).is_err());
        let many = "---\na: 1\n".repeat(MAX_DOCUMENTS + 1);
        assert!(documents(many.as_bytes()).is_err());
        let long = format!("a: {}", "x".repeat(MAX_FILE_OCTETS));
        assert!(documents(long.as_bytes()).is_err());
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..9 {
            let alias = format!("*a{}", level - 1);
            let list = vec![alias; 10].join(", ");
            bomb.push_str(&format!("a{level}: &a{level} [{list}]\n"));
        }
        assert!(documents(bomb.as_bytes()).is_err());
    }
}
