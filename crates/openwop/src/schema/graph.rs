//! The graph of a schema: its subschemas and the transitions between them during evaluation.
//!
//! JSON Schema 2020-12 core §10 and §11 (applicators), §8.2 (`$ref`, `$anchor`). The graph is built
//! without following anything outside the document.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::untrusted::SchemaFault;

/// Maximum number of subschemas in a document.
pub(super) const MAX_SUBSCHEMAS: usize = 2_000;
/// Maximum number of regular expressions in a document.
pub(super) const MAX_PATTERNS: usize = 128;

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The place in the instance that an edge leads to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// The same place: `allOf`, `$ref` and similar keywords.
    Here,
    /// One named member.
    Member(String),
    /// Any member, or a member's name.
    AnyMember,
    Item(usize),
    AnyItem,
}

#[derive(Debug, Default)]
pub(super) struct Node {
    /// Number of assertions to evaluate here.
    pub weight: u64,
    /// The transitions from here.
    pub edges: Vec<(Step, usize)>,
    /// Whether `unevaluated*` visits everything below a second time.
    pub twice: bool,
}

/// All reachable subschemas; the first one is the root.
#[derive(Debug)]
pub(super) struct Graph {
    pub nodes: Vec<Node>,
    /// Member names that the schema itself uses; all other names are data.
    pub members: std::collections::BTreeSet<String>,
}

const IN_PLACE_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const IN_PLACE: [&str; 4] = ["not", "if", "then", "else"];
const ANY_MEMBER: [&str; 3] = [
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
];
const ANY_ITEM: [&str; 3] = ["items", "contains", "unevaluatedItems"];
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

struct Builder<'a> {
    root: &'a Value,
    graph: Graph,
    by_pointer: BTreeMap<String, usize>,
    anchors: BTreeMap<&'a str, String>,
    queue: Vec<(String, &'a Value)>,
    patterns: usize,
}

/// Builds the graph. Rejects references that cannot be resolved inside the document.
pub(super) fn build(root: &Value) -> Result<Graph, SchemaFault> {
    let mut anchors = BTreeMap::new();
    find_anchors(root, String::new(), &mut anchors);
    let graph = Graph {
        nodes: Vec::new(),
        members: std::collections::BTreeSet::new(),
    };
    let mut builder = Builder {
        root,
        graph,
        by_pointer: BTreeMap::new(),
        anchors,
        queue: Vec::new(),
        patterns: 0,
    };
    builder.node(String::new(), root)?;
    while let Some((pointer, schema)) = builder.queue.pop() {
        if let Value::Object(keywords) = schema {
            let id = builder.node(pointer.clone(), schema)?;
            builder.expand(id, &pointer, keywords)?;
        }
    }
    Ok(builder.graph)
}

/// Anchors are found at any location: a schema may contain subschemas under unknown keywords.
fn find_anchors<'a>(value: &'a Value, pointer: String, out: &mut BTreeMap<&'a str, String>) {
    match value {
        Value::Object(members) => {
            for keyword in ["$anchor", "$dynamicAnchor"] {
                if let Some(Value::String(name)) = members.get(keyword) {
                    out.insert(name, pointer.clone());
                }
            }
            for (name, below) in members {
                find_anchors(below, child(&pointer, name), out);
            }
        }
        Value::Array(items) => {
            for (index, below) in items.iter().enumerate() {
                find_anchors(below, format!("{pointer}/{index}"), out);
            }
        }
        _ => {}
    }
}

fn child(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

impl<'a> Builder<'a> {
    /// The node of a subschema; a new node is queued.
    fn node(&mut self, pointer: String, schema: &'a Value) -> Result<usize, SchemaFault> {
        if let Some(id) = self.by_pointer.get(&pointer) {
            return Ok(*id);
        }
        let id = self.graph.nodes.len();
        if id >= MAX_SUBSCHEMAS {
            return Err(SchemaFault::at(&pointer, "has more than 2,000 subschemas"));
        }
        self.graph.nodes.push(Node {
            weight: 1,
            ..Node::default()
        });
        self.by_pointer.insert(pointer.clone(), id);
        self.queue.push((pointer, schema));
        Ok(id)
    }

    fn edge(
        &mut self,
        from: usize,
        step: Step,
        pointer: String,
        schema: &'a Value,
    ) -> Result<(), SchemaFault> {
        let to = self.node(pointer, schema)?;
        if let Some(node) = self.graph.nodes.get_mut(from) {
            node.edges.push((step, to));
        }
        Ok(())
    }

    fn pattern(&mut self, pointer: &str) -> Result<(), SchemaFault> {
        self.patterns += 1;
        if self.patterns > MAX_PATTERNS {
            return Err(SchemaFault::at(pointer, "is one of more than 128 patterns"));
        }
        Ok(())
    }

    fn expand(
        &mut self,
        id: usize,
        pointer: &str,
        keywords: &'a Map<String, Value>,
    ) -> Result<(), SchemaFault> {
        self.identity(pointer, keywords)?;
        let own = keywords.len() as u64
            + keywords
                .get("enum")
                .and_then(Value::as_array)
                .map_or(0, |list| list.len() as u64);
        let twice = keywords.contains_key("unevaluatedProperties")
            || keywords.contains_key("unevaluatedItems");
        if let Some(node) = self.graph.nodes.get_mut(id) {
            node.weight = own.max(1);
            node.twice = twice;
        }
        for (keyword, value) in keywords {
            let at = child(pointer, keyword);
            match (keyword.as_str(), value) {
                ("$ref" | "$dynamicRef", Value::String(target)) => {
                    let (place, schema) = self.resolve(&at, target)?;
                    self.edge(id, Step::Here, place, schema)?;
                }
                (name, Value::Array(list)) if IN_PLACE_LISTS.contains(&name) => {
                    for (index, schema) in list.iter().enumerate() {
                        self.edge(id, Step::Here, format!("{at}/{index}"), schema)?;
                    }
                }
                (name, schema) if IN_PLACE.contains(&name) => {
                    self.edge(id, Step::Here, at, schema)?;
                }
                ("dependentSchemas", Value::Object(map)) => {
                    for (name, schema) in map {
                        self.graph.members.insert(name.clone());
                        self.edge(id, Step::Here, child(&at, name), schema)?;
                    }
                }
                ("properties", Value::Object(map)) => {
                    for (name, schema) in map {
                        self.graph.members.insert(name.clone());
                        self.edge(id, Step::Member(name.clone()), child(&at, name), schema)?;
                    }
                }
                ("patternProperties", Value::Object(map)) => {
                    for (name, schema) in map {
                        self.pattern(&at)?;
                        self.edge(id, Step::AnyMember, child(&at, name), schema)?;
                    }
                }
                (name, schema) if ANY_MEMBER.contains(&name) => {
                    self.edge(id, Step::AnyMember, at, schema)?;
                }
                ("prefixItems", Value::Array(list)) => {
                    for (index, schema) in list.iter().enumerate() {
                        self.edge(id, Step::Item(index), format!("{at}/{index}"), schema)?;
                    }
                }
                (name, schema) if ANY_ITEM.contains(&name) => {
                    self.edge(id, Step::AnyItem, at, schema)?;
                }
                (name, Value::Object(map)) if DEFINITIONS.contains(&name) => {
                    // Definitions are evaluated only if referenced, but they are compiled and must
                    // follow the same rules.
                    for (name, schema) in map {
                        self.node(child(&at, name), schema)?;
                    }
                }
                ("pattern", _) => self.pattern(&at)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// One document, one draft, one base URI: rejects everything that could refer to another
    /// document.
    fn identity(&self, pointer: &str, keywords: &Map<String, Value>) -> Result<(), SchemaFault> {
        if let Some(draft) = keywords.get("$schema")
            && draft.as_str().map(|uri| uri.trim_end_matches('#')) != Some(DRAFT)
        {
            return Err(SchemaFault::at(
                &child(pointer, "$schema"),
                "must be https://json-schema.org/draft/2020-12/schema",
            ));
        }
        if !pointer.is_empty() && keywords.contains_key("$id") {
            return Err(SchemaFault::at(
                &child(pointer, "$id"),
                "is not allowed below the root, because a pack's schema is one document; use \
                 `$defs` instead",
            ));
        }
        Ok(())
    }

    fn resolve(&self, at: &str, target: &str) -> Result<(String, &'a Value), SchemaFault> {
        let Some(fragment) = target.strip_prefix('#') else {
            return Err(SchemaFault::at(
                at,
                "must start with `#`: nothing outside the file is read",
            ));
        };
        let missing =
            || SchemaFault::at(at, "refers to a location that does not exist in this file");
        let decoded = decode_percent(fragment).ok_or_else(missing)?;
        let pointer = if decoded.is_empty() || decoded.starts_with('/') {
            decoded
        } else {
            self.anchors
                .get(decoded.as_str())
                .cloned()
                .ok_or_else(missing)?
        };
        let schema = self.root.pointer(&pointer).ok_or_else(missing)?;
        if !schema.is_object() && !schema.is_boolean() {
            return Err(SchemaFault::at(
                at,
                "refers to a value that is not a schema",
            ));
        }
        Ok((pointer, schema))
    }
}

/// Percent-decoding of a URI fragment (RFC 6901 §6).
fn decode_percent(text: &str) -> Option<String> {
    let mut octets = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(octet) = rest.next() {
        if octet == b'%' {
            let high = char::from(rest.next()?).to_digit(16)?;
            let low = char::from(rest.next()?).to_digit(16)?;
            octets.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            octets.push(octet);
        }
    }
    String::from_utf8(octets).ok()
}
