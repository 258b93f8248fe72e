//! Reads events from text: a JSON array, JSON Lines, or one document that also contains scoring
//! options.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::read::Event;

/// The content of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    pub events: Vec<Event>,
    /// The document's other members, if the text is one.
    pub options: Map<String, Value>,
}

/// Why a text cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct ListingFault {
    /// Line number, from 1.
    pub line: usize,
    pub reason: String,
}

/// Reads the events.
///
/// # Errors
/// The first line that cannot be read.
pub fn list(text: &str) -> Result<Listed, ListingFault> {
    let listing = Listing { text };
    match text.trim_start().chars().next() {
        Some('[') => listing.array(text, Map::new()),
        Some('{') => match serde_json::from_str::<BTreeMap<String, &RawValue>>(text) {
            Ok(document) => listing.document(&document),
            // The first line alone is a document, so the text is JSON Lines.
            Err(_) if listing.first_line_is_whole() => listing.lines(),
            Err(fault) => Err(wrong(&fault)),
        },
        // An empty text.
        None => listing.lines(),
        Some(_) => Err(ListingFault {
            line: 1,
            reason: "expected events as a JSON array or as JSON lines".to_owned(),
        }),
    }
}

/// The byte ranges of the events of a JSON array, or of a document with `events`, each with its
/// first line, for callers that process events one by one.
///
/// # Errors
/// The line and what is wrong there. A single event counts as a list of one.
pub fn places(text: &str) -> Result<Vec<(usize, Range<usize>)>, ListingFault> {
    let listing = Listing { text };
    let array = match text.trim_start().chars().next() {
        Some('[') => text,
        _ => {
            let members: BTreeMap<String, &RawValue> =
                serde_json::from_str(text).map_err(|fault| wrong(&fault))?;
            match members.get("events") {
                Some(events) => events.get(),
                None => {
                    let begin = text.len() - text.trim_start().len();
                    return Ok(vec![(listing.line_at(begin), begin..text.len())]);
                }
            }
        }
    };
    let parts = listing.parts(array)?;
    let placed = parts.into_iter().map(|(line, raw)| {
        let begin = listing.offset_of(raw.get());
        (line, begin..begin + raw.get().len())
    });
    Ok(placed.collect())
}

struct Listing<'a> {
    text: &'a str,
}

impl<'a> Listing<'a> {
    fn array(&self, array: &'a str, options: Map<String, Value>) -> Result<Listed, ListingFault> {
        let events = self.parts(array)?.into_iter().map(|(line, raw)| {
            let at = |reason: String| ListingFault { line, reason };
            let document: Value =
                serde_json::from_str(raw.get()).map_err(|fault| at(reason(&fault)))?;
            Event::read(&document).map_err(|fault| at(fault.to_string()))
        });
        Ok(Listed {
            events: events.collect::<Result<_, _>>()?,
            options,
        })
    }

    /// The items of an array, each with its first line.
    fn parts(&self, array: &'a str) -> Result<Vec<(usize, &'a RawValue)>, ListingFault> {
        let parts: Vec<&RawValue> = serde_json::from_str(array).map_err(|fault| ListingFault {
            // The array may begin after the first line.
            line: self.line_of(array) + fault.line().saturating_sub(1),
            reason: reason(&fault),
        })?;
        let (mut line, mut counted) = (1, 0);
        let placed = parts.into_iter().map(|raw| {
            let offset = self.offset_of(raw.get());
            line += newlines(self.text.get(counted..offset).unwrap_or_default());
            counted = offset;
            (line, raw)
        });
        Ok(placed.collect())
    }

    fn document(&self, members: &BTreeMap<String, &'a RawValue>) -> Result<Listed, ListingFault> {
        let Some(events) = members.get("events") else {
            return self.lines_of_one();
        };
        let mut options = Map::new();
        for (name, raw) in members.iter().filter(|(name, _)| *name != "events") {
            let value = Value::deserialize(*raw).map_err(|fault| ListingFault {
                line: self.line_of(raw.get()),
                reason: reason(&fault),
            })?;
            options.insert(name.clone(), value);
        }
        self.array(events.get(), options)
    }

    fn lines_of_one(&self) -> Result<Listed, ListingFault> {
        let document: Value = serde_json::from_str(self.text).map_err(|fault| wrong(&fault))?;
        let event = Event::read(&document).map_err(|fault| ListingFault {
            line: self.line_of(self.text.trim_start()),
            reason: fault.to_string(),
        })?;
        Ok(Listed {
            events: vec![event],
            options: Map::new(),
        })
    }

    fn first_line_is_whole(&self) -> bool {
        let first = self.text.trim_start().lines().next().unwrap_or_default();
        serde_json::from_str::<&RawValue>(first).is_ok()
    }

    fn lines(&self) -> Result<Listed, ListingFault> {
        let mut events = Vec::new();
        for (place, line) in self.text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let at = |reason: String| ListingFault {
                line: place + 1,
                reason,
            };
            let document: Value = serde_json::from_str(line).map_err(|fault| at(reason(&fault)))?;
            events.push(Event::read(&document).map_err(|fault| at(fault.to_string()))?);
        }
        Ok(Listed {
            events,
            options: Map::new(),
        })
    }

    /// The line on which a part of the text begins.
    fn line_of(&self, part: &str) -> usize {
        self.line_at(self.offset_of(part))
    }

    fn line_at(&self, offset: usize) -> usize {
        newlines(self.text.get(..offset).unwrap_or_default()) + 1
    }

    /// The byte offset at which a part of the text begins.
    fn offset_of(&self, part: &str) -> usize {
        (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize)
    }
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|octet| *octet == b'\n').count()
}

fn wrong(fault: &serde_json::Error) -> ListingFault {
    ListingFault {
        line: fault.line().max(1),
        reason: reason(fault),
    }
}

fn reason(fault: &serde_json::Error) -> String {
    format!("invalid JSON: {fault}")
}
