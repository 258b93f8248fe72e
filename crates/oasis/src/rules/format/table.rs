//! Reads a mapping field by field. Missing fields, unknown fields and values of the wrong type are
//! noted with their positions.

use serde_json::{Map, Value};

use super::node::{Content, Entry, Node, SourcePosition, object};
use super::problem::Problems;

/// A mapping that is being read. Call [`Table::end`] last: it rejects the fields that were not
/// read.
pub(super) struct Table<'n> {
    entries: &'n [Entry],
    place: SourcePosition,
    path: String,
    read: Vec<&'static str>,
}

impl<'n> Table<'n> {
    /// The mapping at `path`; notes a problem if the value is not a mapping.
    pub fn of(node: &'n Node, path: impl Into<String>, problems: &mut Problems) -> Option<Self> {
        let path = path.into();
        match &node.content {
            Content::Map(entries) => Some(Self {
                entries,
                place: node.place,
                path,
                read: Vec::new(),
            }),
            _ => {
                wrong_kind(node, &path, "a mapping", problems);
                None
            }
        }
    }

    /// The start of the mapping.
    pub fn place(&self) -> SourcePosition {
        self.place
    }

    /// The path of a field; for an empty name, the path of the mapping itself.
    pub fn path(&self, field: &str) -> String {
        if self.path.is_empty() {
            field.to_owned()
        } else if field.is_empty() {
            self.path.clone()
        } else {
            format!("{}.{field}", self.path)
        }
    }

    /// The position of a field's value, or of the mapping if the field is absent.
    pub fn place_of(&self, field: &str) -> SourcePosition {
        self.entries
            .iter()
            .find(|entry| entry.key == field)
            .map_or(self.place, |entry| entry.value.place)
    }

    /// A field; an empty field counts as absent.
    pub fn get(&mut self, field: &'static str) -> Option<&'n Node> {
        self.read.push(field);
        self.entries
            .iter()
            .find(|entry| entry.key == field)
            .map(|entry| &entry.value)
            .filter(|value| value.content != Content::Null)
    }

    /// A required field.
    pub fn need(&mut self, field: &'static str, problems: &mut Problems) -> Option<&'n Node> {
        let found = self.get(field);
        if found.is_none() {
            problems.note(self.place, self.path(field), "is missing; add it");
        }
        found
    }

    /// A required string that is not blank.
    pub fn text(&mut self, field: &'static str, problems: &mut Problems) -> Option<String> {
        let node = self.need(field, problems)?;
        text(node, &self.path(field), problems)
    }

    /// An optional string.
    pub fn maybe_text(&mut self, field: &'static str, problems: &mut Problems) -> Option<String> {
        let node = self.get(field)?;
        text(node, &self.path(field), problems)
    }

    /// An optional boolean.
    pub fn maybe_flag(&mut self, field: &'static str, problems: &mut Problems) -> Option<bool> {
        let node = self.get(field)?;
        match &node.content {
            Content::Flag(flag) => Some(*flag),
            _ => {
                wrong_kind(node, &self.path(field), "`true` or `false`", problems);
                None
            }
        }
    }

    /// An optional mapping.
    pub fn maybe_table(&mut self, field: &'static str, problems: &mut Problems) -> Option<Self> {
        let node = self.get(field)?;
        Self::of(node, self.path(field), problems)
    }

    /// A required mapping.
    pub fn table(&mut self, field: &'static str, problems: &mut Problems) -> Option<Self> {
        let node = self.need(field, problems)?;
        Self::of(node, self.path(field), problems)
    }

    /// The values of an optional list, with their paths.
    pub fn list(
        &mut self,
        field: &'static str,
        problems: &mut Problems,
    ) -> Vec<(String, &'n Node)> {
        let Some(node) = self.get(field) else {
            return Vec::new();
        };
        list(node, &self.path(field), problems)
    }

    /// The strings of an optional list.
    pub fn texts(&mut self, field: &'static str, problems: &mut Problems) -> Vec<String> {
        let mut found = Vec::new();
        for (path, node) in self.list(field, problems) {
            found.extend(text(node, &path, problems));
        }
        found
    }

    /// The mappings of an optional list.
    pub fn tables(&mut self, field: &'static str, problems: &mut Problems) -> Vec<Self> {
        let mut found = Vec::new();
        for (path, node) in self.list(field, problems) {
            found.extend(Self::of(node, path, problems));
        }
        found
    }

    /// An optional value from a fixed set of words.
    pub fn maybe_word<T: Copy>(
        &mut self,
        field: &'static str,
        words: &[(&str, T)],
        problems: &mut Problems,
    ) -> Option<T> {
        let node = self.get(field)?;
        let found = text(node, &self.path(field), problems)?;
        let known = words.iter().find(|(word, _)| *word == found);
        if known.is_none() {
            let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let message = format!("must be one of {}", all.join(", "));
            problems.note(node.place, self.path(field), message);
        }
        known.map(|(_, value)| *value)
    }

    /// A required value from a fixed set of words.
    pub fn word<T: Copy>(
        &mut self,
        field: &'static str,
        words: &[(&str, T)],
        problems: &mut Problems,
    ) -> Option<T> {
        self.need(field, problems)?;
        self.maybe_word(field, words, problems)
    }

    /// The entries that were not read, accepting all of them, because the author chooses the names.
    pub fn others(&self) -> impl Iterator<Item = &'n Entry> {
        let read = self.read.clone();
        self.entries
            .iter()
            .filter(move |entry| !read.contains(&entry.key.as_str()))
    }

    /// Rejects the fields that were not read.
    pub fn end(self, problems: &mut Problems) {
        for entry in self.others() {
            let message = format!(
                "is not a known field; the fields are {}",
                self.read.join(", ")
            );
            problems.note(entry.place, self.path(&shown(&entry.key)), message);
        }
    }
}

/// The key, shortened for a message.
fn shown(key: &str) -> String {
    key.chars().take(64).collect()
}

/// Notes that a value has the wrong type.
pub(super) fn wrong_kind(node: &Node, path: &str, wanted: &str, problems: &mut Problems) {
    let hint = match (&node.content, wanted) {
        (Content::Flag(_) | Content::Number(_), "a string") => "; put it into quotes",
        _ => "",
    };
    let message = format!("is {}, must be {wanted}{hint}", node.kind());
    problems.note(node.place, path, message);
}

/// Reads a string that is not blank.
pub(super) fn text(node: &Node, path: &str, problems: &mut Problems) -> Option<String> {
    match &node.content {
        Content::Text(text) if text.trim().is_empty() => {
            problems.note(node.place, path, "must not be blank");
            None
        }
        // A folded string ends with an unintended line break.
        Content::Text(text) => Some(text.trim_end().to_owned()),
        _ => {
            wrong_kind(node, path, "a string", problems);
            None
        }
    }
}

/// Reads a finite number.
pub(super) fn number(node: &Node, path: &str, problems: &mut Problems) -> Option<f64> {
    match &node.content {
        Content::Number(number) => number.as_f64(),
        _ => {
            wrong_kind(node, path, "a number", problems);
            None
        }
    }
}

/// The values of a list with their paths.
pub(super) fn list<'n>(
    node: &'n Node,
    path: &str,
    problems: &mut Problems,
) -> Vec<(String, &'n Node)> {
    match &node.content {
        Content::List(nodes) => nodes
            .iter()
            .enumerate()
            .map(|(index, node)| (format!("{path}[{index}]"), node))
            .collect(),
        _ => {
            wrong_kind(node, path, "a list", problems);
            Vec::new()
        }
    }
}

/// Reads a mapping with arbitrary names.
pub(super) fn free_map(node: &Node, path: &str, problems: &mut Problems) -> Map<String, Value> {
    match &node.content {
        Content::Map(entries) => object(entries),
        _ => {
            wrong_kind(node, path, "a mapping", problems);
            Map::new()
        }
    }
}
