//! The bytes of a document and of the files that it refers to.

use serde_json::{Map, Value};

use touchstone_kit::json;

/// Access to the files that a document refers to. Names are relative to the document's folder.
pub trait Files {
    /// The content of a file.
    ///
    /// # Errors
    /// Why it could not be read, without the name.
    fn read(&self, name: &str) -> Result<Vec<u8>, String>;

    /// The names of the files that match a glob pattern, in order. A folder stands for the files
    /// in it.
    ///
    /// # Errors
    /// Why the pattern is not valid.
    fn matching(&self, pattern: &str) -> Result<Vec<String>, String>;
}

/// No files, for documents that stand alone.
#[derive(Clone, Copy, Debug)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _name: &str) -> Result<Vec<u8>, String> {
        Err("no other files can be read here".to_owned())
    }

    fn matching(&self, _pattern: &str) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }
}

/// A document and access to the files that it refers to.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub bytes: &'a [u8],
    pub files: &'a dyn Files,
}

impl<'a> Source<'a> {
    /// A document that stands alone.
    pub fn alone(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            files: &NoFiles,
        }
    }
}

/// The document as text, without a byte order mark.
pub fn text(bytes: &[u8]) -> Result<&str, String> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|fault| {
        let before = bytes.get(..fault.valid_up_to()).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("line {line} is not UTF-8")
    })
}

/// Parses YAML or JSON. The library limits nodes, depth and aliases.
pub fn document(bytes: &[u8]) -> Result<Value, String> {
    let text = text(bytes)?;
    if text.trim_start().starts_with(['{', '[']) {
        match json::parse(text.as_bytes()) {
            Ok(value) => return Ok(value),
            // Flow style YAML starts with the same characters.
            Err(fault) => {
                return serde_saphyr::from_str(text).map_err(|_| format!("it {fault}"));
            }
        }
    }
    serde_saphyr::from_str(text).map_err(|fault| {
        let words = fault.to_string();
        let first = words.lines().next().unwrap_or("invalid YAML");
        format!("it is not valid YAML: {first}")
    })
}

/// Parses a YAML or JSON mapping.
pub fn mapping(bytes: &[u8]) -> Result<Map<String, Value>, String> {
    match document(bytes)? {
        Value::Object(members) => Ok(members),
        _ => Err("it is not a mapping".to_owned()),
    }
}

/// Whether the name of a file ends with one of these extensions.
pub fn has_extension(name: &str, extensions: &[&str]) -> bool {
    let name = name.to_ascii_lowercase();
    extensions.iter().any(|extension| {
        name.strip_suffix(extension)
            .is_some_and(|rest| rest.ends_with('.'))
    })
}
