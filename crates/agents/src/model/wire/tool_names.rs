//! Maps tool names to the names that a wire allows.
//!
//! OpenWOP names tools `<scope>:<tool-id>`; the chat-completions wire accepts
//! `^[a-zA-Z0-9_-]{1,64}$`. A name that fits is kept. In other names, invalid characters are
//! replaced and the name is truncated; if the result would equal another tool's name, a part of the
//! name's digest is added. The result depends only on the set of tools, so every turn and every
//! process uses the same name.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use sha2::{Digest, Sha256};

use touchstone_kit::hex::hex_prefix;

const LONGEST: usize = 64;
const DIGEST_CHARS: usize = 8;

/// The names of one set of tools, in both directions.
#[derive(Debug, Default)]
pub struct ToolNames<'a> {
    wire: HashMap<&'a str, Cow<'a, str>>,
    full: HashMap<Cow<'a, str>, &'a str>,
}

impl<'a> ToolNames<'a> {
    pub fn new(tools: &'a [String]) -> Self {
        let mut names = Self::default();
        if tools.is_empty() {
            return names;
        }
        let (fit, mut others): (Vec<&str>, Vec<&str>) = tools
            .iter()
            .map(String::as_str)
            .partition(|name| fits(name));
        for name in fit {
            names.add(name, Cow::Borrowed(name));
        }
        others.sort_unstable();
        others.dedup();
        let mut seen = HashSet::new();
        let shared: HashSet<String> = others
            .iter()
            .map(|name| readable(name))
            .filter(|short| !seen.insert(short.clone()))
            .collect();
        // Names that fit take precedence over those that need a digest.
        let (plain, digested): (Vec<&str>, Vec<&str>) = others.into_iter().partition(|name| {
            let short = readable(name);
            !shared.contains(&short) && !names.full.contains_key(short.as_str())
        });
        for name in plain {
            names.add(name, Cow::Owned(readable(name)));
        }
        for name in digested {
            let free = (0u32..)
                .map(|salt| with_digest(name, salt))
                .find(|wire| !names.full.contains_key(wire.as_str()));
            if let Some(wire) = free {
                names.add(name, Cow::Owned(wire));
            }
        }
        names
    }

    fn add(&mut self, full: &'a str, wire: Cow<'a, str>) {
        self.full.insert(wire.clone(), full);
        self.wire.insert(full, wire);
    }

    /// The name on the wire. A name outside the set, which a model made up, gets valid characters.
    pub fn to_wire<'b>(&'b self, full: &'b str) -> Cow<'b, str> {
        match self.wire.get(full) {
            Some(wire) => Cow::Borrowed(wire),
            None if fits(full) => Cow::Borrowed(full),
            None => Cow::Owned(readable(full)),
        }
    }

    /// The tool for a name on the wire. Some servers let a model use the full name; an unknown name
    /// stays as it is.
    pub fn to_full<'b>(&'b self, wire: &'b str) -> &'b str {
        self.full.get(wire).copied().unwrap_or(wire)
    }
}

fn allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

fn fits(name: &str) -> bool {
    (1..=LONGEST).contains(&name.len()) && name.chars().all(allowed)
}

fn readable(name: &str) -> String {
    let short: String = name
        .chars()
        .map(|c| if allowed(c) { c } else { '_' })
        .take(LONGEST)
        .collect();
    if short.is_empty() {
        "_".to_owned()
    } else {
        short
    }
}

fn with_digest(name: &str, salt: u32) -> String {
    let mut hash = Sha256::new();
    hash.update(salt.to_be_bytes());
    hash.update(name);
    let mut wire = readable(name);
    wire.truncate(LONGEST - DIGEST_CHARS - 1);
    wire.push('-');
    wire.push_str(&hex_prefix(&hash.finalize(), DIGEST_CHARS));
    wire
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn wire_names_of_tools_are_unique_and_reversible(
            names in prop::collection::hash_set("[ab:_.é-]{0,3}|a{60}[b:._]{0,8}", 0..40),
            rotation in 0..40usize,
        ) {
            let mut names: Vec<String> = names.into_iter().collect();
            let tools = names.clone();
            let mapped = ToolNames::new(&tools);
            let wires: HashSet<String> = names.iter().map(|n| mapped.to_wire(n).into_owned()).collect();
            prop_assert_eq!(wires.len(), names.len());
            for name in &tools {
                let wire = mapped.to_wire(name);
                prop_assert!(fits(&wire), "{wire:?}");
                prop_assert_eq!(mapped.to_full(&wire), name);
                if fits(name) {
                    prop_assert_eq!(&*wire, name);
                }
            }
            // The order in which tools are listed changes no name.
            let middle = rotation.min(names.len());
            names.rotate_left(middle);
            let turned = ToolNames::new(&names);
            for name in &tools {
                prop_assert_eq!(turned.to_wire(name), mapped.to_wire(name));
            }
        }
    }

    #[test]
    fn wire_names_of_tools_are_readable_and_unknown_names_are_kept() {
        let tools = ["openwop:core.rag.retriever-basic".to_owned()];
        let names = ToolNames::new(&tools);
        assert_eq!(
            names.to_wire("openwop:core.rag.retriever-basic"),
            "openwop_core_rag_retriever-basic"
        );
        assert_eq!(names.to_full("delete_everything"), "delete_everything");
        assert_eq!(
            names.to_full("openwop:core.rag.retriever-basic"),
            "openwop:core.rag.retriever-basic"
        );
    }
}
