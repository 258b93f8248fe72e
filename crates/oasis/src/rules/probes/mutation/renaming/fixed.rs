//! Names that must not be replaced, and words that must not be used as names.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{entries, spoken, words};
use crate::rules::evidence::VERBS;

/// Fields that neither the agent nor a check reads.
const UNREAD: [&str; 4] = ["id", "version", "quality", "observability_requirements"];

/// The words that must stay unchanged.
pub(super) struct Fixed {
    /// Meaningful words outside the scenario's texts: fields, kinds, words of the format. In lower
    /// case.
    words: BTreeSet<String>,
    /// Words in the scenario's texts, in their original case.
    exact: BTreeSet<String>,
    /// The same words in lower case.
    pub spoken: BTreeSet<String>,
    /// Texts that behaviors compare with, in lower case.
    behaviors: Vec<String>,
    /// The literal parts of globs, in lower case.
    globs: BTreeSet<String>,
}

impl Fixed {
    /// The fixed words of a document whose behaviors compare with these texts.
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
        // A state such as `open` is not a name, even if a workspace has that name.
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

    /// Adds the words of a text that are not names.
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

    /// Adds every word of a value outside the scenario's texts.
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

    /// Whether a name can be replaced.
    pub fn gives_up(&self, name: &str) -> bool {
        let is_word = words(name).next() == Some(name) && name.len() > 1;
        let lower = name.to_lowercase();
        // `b-10` in a text that is compared ignoring case may refer to `B-10`.
        let is_one = !self
            .exact
            .iter()
            .any(|word| *word != name && word.to_lowercase() == lower);
        is_word && is_one && self.may_become(name)
    }

    /// Whether a word is unused and can become a name.
    pub fn may_become(&self, name: &str) -> bool {
        let lower = name.to_lowercase();
        !self.words.contains(&lower)
            && !self.behaviors.iter().any(|text| text.contains(&lower))
            && !self.globs.iter().any(|part| lower.contains(part))
    }
}
