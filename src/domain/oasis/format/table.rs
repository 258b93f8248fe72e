//! Reads a mapping field by field: what is missing, of the wrong kind or not known is noted with its place.

use serde_json::{Map, Value};

use super::node::{Content, Entry, Node, Place, object};
use super::problem::Problems;

/// A mapping that is being read. [`Table::end`] must come last: it refuses the fields nobody asked for.
pub(super) struct Table<'n> {
    entries: &'n [Entry],
    place: Place,
    path: String,
    asked: Vec<&'static str>,
}

impl<'n> Table<'n> {
    /// The mapping at `path`, or a problem.
    pub fn of(node: &'n Node, path: impl Into<String>, problems: &mut Problems) -> Option<Self> {
        let path = path.into();
        match &node.content {
            Content::Map(entries) => Some(Self {
                entries,
                place: node.place,
                path,
                asked: Vec::new(),
            }),
            _ => {
                wrong_kind(node, &path, "a mapping", problems);
                None
            }
        }
    }

    /// Where the mapping begins.
    pub fn place(&self) -> Place {
        self.place
    }

    /// The path of a field; of none, that of the mapping itself.
    pub fn path(&self, field: &str) -> String {
        if self.path.is_empty() {
            field.to_owned()
        } else if field.is_empty() {
            self.path.clone()
        } else {
            format!("{}.{field}", self.path)
        }
    }

    /// Where a field's value stands, or the mapping itself.
    pub fn place_of(&self, field: &str) -> Place {
        self.entries
            .iter()
            .find(|entry| entry.key == field)
            .map_or(self.place, |entry| entry.value.place)
    }

    /// A field; one that is empty counts as not there.
    pub fn get(&mut self, field: &'static str) -> Option<&'n Node> {
        self.asked.push(field);
        self.entries
            .iter()
            .find(|entry| entry.key == field)
            .map(|entry| &entry.value)
            .filter(|value| value.content != Content::Null)
    }

    /// A field that must be there.
    pub fn need(&mut self, field: &'static str, problems: &mut Problems) -> Option<&'n Node> {
        let found = self.get(field);
        if found.is_none() {
            problems.note(self.place, self.path(field), "is missing; add it");
        }
        found
    }

    /// A text that must be there and not be blank.
    pub fn text(&mut self, field: &'static str, problems: &mut Problems) -> Option<String> {
        let node = self.need(field, problems)?;
        text(node, &self.path(field), problems)
    }

    /// A text that may be there.
    pub fn maybe_text(&mut self, field: &'static str, problems: &mut Problems) -> Option<String> {
        let node = self.get(field)?;
        text(node, &self.path(field), problems)
    }

    /// A flag that may be there.
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

    /// A mapping that may be there.
    pub fn maybe_table(&mut self, field: &'static str, problems: &mut Problems) -> Option<Self> {
        let node = self.get(field)?;
        Self::of(node, self.path(field), problems)
    }

    /// A mapping that must be there.
    pub fn table(&mut self, field: &'static str, problems: &mut Problems) -> Option<Self> {
        let node = self.need(field, problems)?;
        Self::of(node, self.path(field), problems)
    }

    /// The values of a list that may be there, with their paths.
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

    /// The texts of a list that may be there.
    pub fn texts(&mut self, field: &'static str, problems: &mut Problems) -> Vec<String> {
        let mut found = Vec::new();
        for (path, node) in self.list(field, problems) {
            found.extend(text(node, &path, problems));
        }
        found
    }

    /// The mappings of a list that may be there.
    pub fn tables(&mut self, field: &'static str, problems: &mut Problems) -> Vec<Self> {
        let mut found = Vec::new();
        for (path, node) in self.list(field, problems) {
            found.extend(Self::of(node, path, problems));
        }
        found
    }

    /// One of a few words that may be there.
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
            let message = format!("is none of {}", all.join(", "));
            problems.note(node.place, self.path(field), message);
        }
        known.map(|(_, value)| *value)
    }

    /// One of a few words that must be there.
    pub fn word<T: Copy>(
        &mut self,
        field: &'static str,
        words: &[(&str, T)],
        problems: &mut Problems,
    ) -> Option<T> {
        self.need(field, problems)?;
        self.maybe_word(field, words, problems)
    }

    /// The entries that were not asked for, all of them allowed: the names are the author's.
    pub fn others(&self) -> impl Iterator<Item = &'n Entry> {
        let asked = self.asked.clone();
        self.entries
            .iter()
            .filter(move |entry| !asked.contains(&entry.key.as_str()))
    }

    /// Refuses what nobody asked for.
    pub fn end(self, problems: &mut Problems) {
        for entry in self.others() {
            let message = format!("is not known here; known are {}", self.asked.join(", "));
            problems.note(entry.place, self.path(&shown(&entry.key)), message);
        }
    }
}

/// A key short enough for a message.
fn shown(key: &str) -> String {
    key.chars().take(64).collect()
}

/// Notes that a value is of another kind than it should be.
pub(super) fn wrong_kind(node: &Node, path: &str, wanted: &str, problems: &mut Problems) {
    let hint = match (&node.content, wanted) {
        (Content::Flag(_) | Content::Number(_), "a text") => "; put it into quotes",
        _ => "",
    };
    let message = format!("is {}, it must be {wanted}{hint}", node.kind());
    problems.note(node.place, path, message);
}

/// A text that is not blank.
pub(super) fn text(node: &Node, path: &str, problems: &mut Problems) -> Option<String> {
    match &node.content {
        Content::Text(text) if text.trim().is_empty() => {
            problems.note(node.place, path, "is blank; write something");
            None
        }
        // A folded text ends with a line break that nobody means.
        Content::Text(text) => Some(text.trim_end().to_owned()),
        _ => {
            wrong_kind(node, path, "a text", problems);
            None
        }
    }
}

/// A finite number.
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

/// A mapping whose names are the author's.
pub(super) fn free_map(node: &Node, path: &str, problems: &mut Problems) -> Map<String, Value> {
    match &node.content {
        Content::Map(entries) => object(entries),
        _ => {
            wrong_kind(node, path, "a mapping", problems);
            Map::new()
        }
    }
}
