//! Lists of JSON documents that are written one by one.

use std::io;

use serde::Serialize;

use super::Out;

/// How JSON is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonForm {
    /// On one line.
    Compact,
    /// With line breaks and two spaces for each level.
    Indented,
}

impl JsonForm {
    /// The document as text.
    ///
    /// # Errors
    /// It does not serialize.
    pub fn text(self, document: &impl Serialize) -> serde_json::Result<String> {
        match self {
            Self::Compact => serde_json::to_string(document),
            Self::Indented => serde_json::to_string_pretty(document),
        }
    }

    /// A member with an empty list, as it is printed.
    pub fn empty_list(self, name: &str) -> String {
        match self {
            Self::Compact => format!("\"{name}\":[]"),
            Self::Indented => format!("\"{name}\": []"),
        }
    }
}

/// A list that is printed as `serde_json` prints a whole one.
#[derive(Debug)]
pub struct JsonList {
    form: JsonForm,
    /// The line break before the end of the list.
    margin: String,
    is_empty: bool,
}

impl JsonList {
    /// A list in a line that begins with `indent` spaces.
    pub fn new(form: JsonForm, indent: usize) -> Self {
        let margin = match form {
            JsonForm::Compact => String::new(),
            JsonForm::Indented => format!("\n{}", " ".repeat(indent)),
        };
        Self {
            form,
            margin,
            is_empty: true,
        }
    }

    /// Writes one item.
    ///
    /// # Errors
    /// Writing failed, or the item does not serialize.
    pub fn add(&mut self, item: &impl Serialize, out: &mut Out<'_>) -> io::Result<()> {
        let text = self.form.text(item)?;
        out.write_all(if self.is_empty { b"[" } else { b"," })?;
        self.is_empty = false;
        if self.form == JsonForm::Compact {
            return out.write_all(text.as_bytes());
        }
        // A line break within a string is escaped.
        for line in text.lines() {
            out.write_all(self.margin.as_bytes())?;
            out.write_all(b"  ")?;
            out.write_all(line.as_bytes())?;
        }
        Ok(())
    }

    /// Writes the end of the list.
    ///
    /// # Errors
    /// Writing failed.
    pub fn end(&self, out: &mut Out<'_>) -> io::Result<()> {
        match self.is_empty {
            true => out.write_all(b"[]"),
            false => write!(out, "{}]", self.margin),
        }
    }
}
