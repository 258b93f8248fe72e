//! Names that must stay, and names nothing may get.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{entries, spoken, words};
use crate::domain::oasis::evidence::VERBS;

/// What nobody but people and lists reads.
const UNREAD: [&str; 4] = ["id", "version", "quality", "observability_requirements"];

/// What stays as it is.
pub(super) struct Fixed {
    /// Words that are not spoken of but mean something: fields, kinds, words of the format. In lower case.
    words: BTreeSet<String>,
    /// Words as they are spoken.
    exact: BTreeSet<String>,
    /// The same in lower case.
    pub spoken: BTreeSet<String>,
    /// Texts behaviours compare with, in lower case.
    behaviors: Vec<String>,
    /// What stands between the `*` of globs, in lower case.
    globs: BTreeSet<String>,
}

impl Fixed {
    /// Of a document whose profile has behaviours that compare with these texts.
    pub fn of(document: &mut Value, behaviors: &[String]) -> Self {
        let mut fixed = Self {
            words: VERBS.iter().map(|verb| (*verb).to_owned()).collect(),
            exact: BTreeSet::new(),
            spoken: BTreeSet::new(),
            behaviors: behaviors.to_vec(),
            globs: BTreeSet::new(),
        };
        spoken(document, &mut |text| fixed.listen(text));
        for text in behaviors {
            fixed.take_globs(text);
        }
        // A state like `open` is no name, even if a workspace is called so.
        let fields = entries(document).filter_map(Value::as_object).flatten();
        for (field, value) in fields {
            if field != "workspace" {
                fixed.words.extend(value.as_str().map(str::to_lowercase));
            }
        }
        let mut rest = document.clone();
        spoken(&mut rest, &mut String::clear);
        if let Some(members) = rest.as_object_mut() {
            members.retain(|field, _| !UNREAD.contains(&field.as_str()));
        }
        fixed.keep(&rest);
        fixed
    }

    /// Takes what a text holds that is no name.
    fn listen(&mut self, text: &str) {
        for word in words(text) {
            self.exact.insert(word.to_owned());
            self.spoken.insert(word.to_lowercase());
        }
        for part in text.split_whitespace() {
            // `kind/name` and `key=value`: neither kind nor key is a name.
            for mark in ['/', '='] {
                let before = part.split_once(mark).map(|(before, _)| before);
                self.words
                    .extend(before.into_iter().flat_map(words).map(str::to_lowercase));
            }
        }
        self.take_globs(text);
    }

    fn take_globs(&mut self, text: &str) {
        let globs = text
            .split([' ', '/', '=', '|', '@'])
            .filter(|it| it.contains('*'));
        let parts = globs
            .flat_map(|glob| glob.split('*'))
            .filter(|part| !part.is_empty());
        self.globs.extend(parts.map(str::to_lowercase));
    }

    /// Keeps every word of what is not spoken.
    fn keep(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.words.extend(words(text).map(str::to_lowercase)),
            Value::Array(items) => items.iter().for_each(|item| self.keep(item)),
            Value::Object(members) => {
                for (field, member) in members {
                    self.words.insert(field.to_lowercase());
                    self.words.extend(words(field).map(str::to_lowercase));
                    self.keep(member);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Whether a name can be given up.
    pub fn gives_up(&self, name: &str) -> bool {
        let is_word = words(name).next() == Some(name) && name.len() > 1;
        let lower = name.to_lowercase();
        // `b-10` in a text that is compared in any case may be `B-10`.
        let is_one = !self
            .exact
            .iter()
            .any(|word| *word != name && word.to_lowercase() == lower);
        is_word && is_one && self.may_become(name)
    }

    /// Whether nothing else means a name.
    pub fn may_become(&self, name: &str) -> bool {
        let lower = name.to_lowercase();
        !self.words.contains(&lower)
            && !self.behaviors.iter().any(|text| text.contains(&lower))
            && !self.globs.iter().any(|part| lower.contains(part))
    }
}
