//! Events in a text: a JSON array, JSON lines, or one document that also says how they are to be scored.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::read::Event;

/// What a text holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// The events, in their order.
    pub events: Vec<Event>,
    /// The other members of the document, if it is one.
    pub beside: Map<String, Value>,
}

/// Why a text cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct ListingFault {
    /// Where, from 1.
    pub line: usize,
    /// What is wrong there.
    pub reason: String,
}

/// Reads them.
///
/// # Errors
/// The first line that cannot be read.
pub fn list(text: &str) -> Result<Listed, ListingFault> {
    let listing = Listing { text };
    match text.trim_start().chars().next() {
        Some('[') => listing.array(text, Map::new()),
        Some('{') => match serde_json::from_str::<BTreeMap<String, &RawValue>>(text) {
            Ok(document) => listing.document(&document),
            // Its first line alone is a document: the text is lines of them.
            Err(_) if listing.first_line_is_whole() => listing.lines(),
            Err(fault) => Err(wrong(&fault)),
        },
        _ => Err(ListingFault {
            line: 1,
            reason: "expected events as a JSON array or as JSON lines".to_owned(),
        }),
    }
}

struct Listing<'a> {
    text: &'a str,
}

impl<'a> Listing<'a> {
    fn array(&self, array: &'a str, beside: Map<String, Value>) -> Result<Listed, ListingFault> {
        let places: Vec<&RawValue> = serde_json::from_str(array).map_err(|fault| ListingFault {
            // The array may begin further down.
            line: self.line_of(array) + fault.line().saturating_sub(1),
            reason: reason(&fault),
        })?;
        let events = places.into_iter().map(|raw| {
            let at = |reason: String| ListingFault {
                line: self.line_of(raw.get()),
                reason,
            };
            let document: Value =
                serde_json::from_str(raw.get()).map_err(|fault| at(reason(&fault)))?;
            Event::read(&document).map_err(|fault| at(fault.to_string()))
        });
        Ok(Listed {
            events: events.collect::<Result<_, _>>()?,
            beside,
        })
    }

    fn document(&self, members: &BTreeMap<String, &'a RawValue>) -> Result<Listed, ListingFault> {
        let Some(events) = members.get("events") else {
            return self.lines_of_one();
        };
        let mut beside = Map::new();
        for (name, raw) in members.iter().filter(|(name, _)| *name != "events") {
            let value = Value::deserialize(*raw).map_err(|fault| ListingFault {
                line: self.line_of(raw.get()),
                reason: reason(&fault),
            })?;
            beside.insert(name.clone(), value);
        }
        self.array(events.get(), beside)
    }

    fn lines_of_one(&self) -> Result<Listed, ListingFault> {
        let document: Value = serde_json::from_str(self.text).map_err(|fault| wrong(&fault))?;
        let event = Event::read(&document).map_err(|fault| ListingFault {
            line: self.line_of(self.text.trim_start()),
            reason: fault.to_string(),
        })?;
        Ok(Listed {
            events: vec![event],
            beside: Map::new(),
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
            beside: Map::new(),
        })
    }

    /// The line on which a part of the text begins.
    fn line_of(&self, part: &str) -> usize {
        let offset = (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        let before = self.text.get(..offset).unwrap_or_default();
        before.bytes().filter(|octet| *octet == b'\n').count() + 1
    }
}

fn wrong(fault: &serde_json::Error) -> ListingFault {
    ListingFault {
        line: fault.line().max(1),
        reason: reason(fault),
    }
}

fn reason(fault: &serde_json::Error) -> String {
    format!("no JSON: {fault}")
}
