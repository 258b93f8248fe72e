//! The faults of a document, in the terms of JSON.

use touchstone_openwop::suite::SuiteFault;

/// Faults of one document that are reported.
const MAX_FAULTS: usize = 100;
/// Names at least this similar are suggested.
const NEAR: f64 = 0.75;

#[derive(Default)]
pub struct Faults {
    pub all: Vec<SuiteFault>,
}

impl Faults {
    pub fn add(&mut self, pointer: impl Into<String>, reason: impl Into<String>) {
        if self.all.len() < MAX_FAULTS {
            self.all.push(SuiteFault::new(pointer, reason));
        }
    }

    /// # Errors
    /// There are any.
    pub fn end(self) -> Result<(), Vec<SuiteFault>> {
        if self.all.is_empty() {
            Ok(())
        } else {
            Err(self.all)
        }
    }
}

/// A member's name in a JSON Pointer.
pub fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The most similar of the known names, if it is similar.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    let rated = known.map(|it| (strsim::jaro_winkler(&wanted, &it.to_lowercase()), it));
    let best = rated.max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.filter(|(similarity, _)| *similarity >= NEAR)
        .map(|(_, name)| name)
}

/// A deserialization error in the terms of JSON.
pub fn in_words(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let hint =
        suggestion(&message).map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    let words = message
        .replace("expected u64", "expected an integer of at least 0")
        .replace("expected u32", "expected an integer of at least 0")
        .replace("expected usize", "expected an integer of at least 0")
        .replace("expected f64", "expected a number")
        .replace("unknown field", "unknown member")
        .replace("missing field", "missing member")
        .replace("floating point number", "number")
        .replace("floating point", "number");
    format!("{words}{hint}")
}

/// The nearest of the names that an error expects instead of an unknown one.
fn suggestion(message: &str) -> Option<&str> {
    let (unknown, expected) = message.split_once(", expected ")?;
    if !unknown.starts_with("unknown ") {
        return None;
    }
    let name = unknown.split('`').nth(1)?;
    nearest(name, expected.split('`').skip(1).step_by(2))
}
