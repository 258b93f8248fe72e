//! Accepts only documents that a signature covers completely.
//!
//! JSON-LD reads leniently. A member that no context defines, `null`, an empty array and a relative
//! IRI are all left out of the RDF, so adding or removing them does not invalidate the signature.
//! Such documents are rejected here, and the remaining ones have essentially one RDF form. Also
//! rejected are lists with members that look alike, and documents with many unnamed nodes: to
//! distinguish such nodes, RDF canonicalization (RDFC-1.0 §7) needs time that grows with the
//! factorial of their number.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::terms::{Kind, Term, Type, Vocabulary, vocabularies};

/// Maximum nesting of objects in a document.
const MAX_DEPTH: usize = 8;
/// Maximum number of unnamed nodes in a document, including list items. This host's badges have
/// about thirty.
const MAX_UNNAMED: usize = 256;

/// A problem in a document and its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} {kind}", if path.is_empty() { "the document" } else { path })]
pub struct Fault {
    /// A JSON pointer.
    pub path: String,
    pub kind: FaultKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultKind {
    /// The list of contexts is unknown.
    #[error(
        "is not a known list of contexts; contexts are never fetched, so an unknown one is \
        rejected"
    )]
    Contexts,
    /// No context defines the member.
    #[error("is not defined by the contexts, so no signature covers it")]
    Undefined,
    /// No context defines the type.
    #[error("names a type that the contexts do not define, so no signature covers it")]
    UndefinedType,
    /// The value has the wrong form for its member.
    #[error("is not a valid value for this member")]
    Value,
    /// The value is not an absolute IRI.
    #[error("is not an absolute IRI, so no signature covers it")]
    Iri,
    /// The text contains characters with more than one canonical form.
    #[error("contains a control character, which libraries canonicalize differently")]
    Ambiguous,
    /// The value is empty, and JSON-LD drops it.
    #[error("is empty, so no signature covers it")]
    Empty,
    /// Two items cannot be distinguished by their own content.
    #[error("cannot be distinguished from another item of the same list")]
    Alike,
    /// More than [`MAX_DEPTH`] levels.
    #[error("is nested too deeply")]
    TooDeep,
    /// More than [`MAX_UNNAMED`] nodes without an id.
    #[error("exceeds the limit of parts without an id")]
    TooMany,
}

/// Checks a document whose `@context` is one of the known lists, and returns the context URLs.
///
/// # Errors
/// The first [`Fault`].
pub fn check(document: &Map<String, Value>) -> Result<Vec<&str>, Fault> {
    let urls: Vec<&str> = document
        .get("@context")
        .and_then(Value::as_array)
        .map(|urls| urls.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let named = document.get("@context").and_then(Value::as_array);
    let whole = named.is_some_and(|named| named.len() == urls.len());
    let Some(known) = vocabularies(&urls).filter(|_| whole) else {
        return Err(fault("/@context", FaultKind::Contexts));
    };
    let mut walk = Walk { known, unnamed: 0 };
    walk.object(document, "", 0)?;
    Ok(urls)
}

/// Whether libraries write a character differently in canonical N-Quads: RDFC-1.0 escapes these
/// characters, common implementations of its predecessor escape few of them.
pub fn is_ambiguous(c: char) -> bool {
    c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}')
}

fn fault(path: &str, kind: FaultKind) -> Fault {
    Fault {
        path: path.to_owned(),
        kind,
    }
}

struct Walk {
    known: &'static [&'static Vocabulary],
    unnamed: usize,
}

impl Walk {
    fn object(
        &mut self,
        object: &Map<String, Value>,
        path: &str,
        depth: usize,
    ) -> Result<(), Fault> {
        if depth >= MAX_DEPTH {
            return Err(fault(path, FaultKind::TooDeep));
        }
        let types = self.types(object, path)?;
        if !object.contains_key("id") {
            self.count(path)?;
        }
        for (name, value) in object {
            let here = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
            match name.as_str() {
                "@context" if depth == 0 => continue,
                "type" => {}
                "id" => absolute(value, &here)?,
                _ => {
                    let term = self
                        .term(&types, name)
                        .ok_or_else(|| fault(&here, FaultKind::Undefined))?;
                    self.values(term.kind, value, &here, depth)?;
                }
            }
        }
        Ok(())
    }

    fn count(&mut self, path: &str) -> Result<(), Fault> {
        self.unnamed += 1;
        if self.unnamed > MAX_UNNAMED {
            return Err(fault(path, FaultKind::TooMany));
        }
        Ok(())
    }

    fn types(&self, object: &Map<String, Value>, path: &str) -> Result<Vec<&'static Type>, Fault> {
        let Some(named) = object.get("type") else {
            return Ok(Vec::new());
        };
        let path = format!("{path}/type");
        let names: BTreeSet<&str> = items(named).filter_map(Value::as_str).collect();
        if names.len() != items(named).count() {
            return Err(fault(&path, FaultKind::Alike));
        }
        items(named)
            .map(|name| {
                let name = name
                    .as_str()
                    .ok_or_else(|| fault(&path, FaultKind::Value))?;
                let mut all = self.known.iter().flat_map(|it| it.types);
                all.find(|class| class.name == name)
                    .ok_or_else(|| fault(&path, FaultKind::UndefinedType))
            })
            .collect::<Result<Vec<_>, Fault>>()
            .and_then(|types| match types.is_empty() {
                true => Err(fault(&path, FaultKind::Empty)),
                false => Ok(types),
            })
    }

    /// A type's definition of a member takes precedence over the common one.
    fn term(&self, types: &[&'static Type], name: &str) -> Option<&'static Term> {
        let own = types.iter().flat_map(|class| class.terms);
        let any = self.known.iter().flat_map(|it| it.terms);
        own.chain(any).find(|term| term.name == name)
    }

    fn values(&mut self, kind: Kind, value: &Value, path: &str, depth: usize) -> Result<(), Fault> {
        let Value::Array(list) = value else {
            return self.value(kind, value, path, depth);
        };
        // An empty list is stated in RDF; an empty set is not.
        if list.is_empty() && kind != Kind::TextList {
            return Err(fault(path, FaultKind::Empty));
        }
        let mut seen = BTreeSet::new();
        for (n, item) in list.iter().enumerate() {
            let here = format!("{path}/{n}");
            self.value(kind, item, &here, depth)?;
            if kind == Kind::TextList {
                self.count(&here)?;
            } else if !seen.insert(self.outline(item)) {
                return Err(fault(&here, FaultKind::Alike));
            }
        }
        Ok(())
    }

    /// The node's own content; nested nodes without an id only count as present. RDFC-1.0
    /// distinguishes nodes by this first.
    fn outline(&self, item: &Value) -> String {
        let Value::Object(node) = item else {
            return item.to_string();
        };
        if let Some(id) = node.get("id") {
            return id.to_string();
        }
        let types = self.types(node, "").unwrap_or_default();
        let members = node.iter().map(|(name, value)| {
            let listed = self
                .term(&types, name)
                .is_some_and(|it| it.kind == Kind::TextList);
            let mut values: Vec<String> = items(value)
                .filter(|_| !listed)
                .map(|value| match value {
                    Value::Object(inner) => {
                        inner.get("id").map_or_else(String::new, Value::to_string)
                    }
                    scalar => scalar.to_string(),
                })
                .collect();
            values.sort_unstable();
            format!("{name}={values:?}")
        });
        members.collect::<Vec<String>>().join(",")
    }

    fn value(&mut self, kind: Kind, value: &Value, path: &str, depth: usize) -> Result<(), Fault> {
        if value
            .as_str()
            .is_some_and(|text| text.contains(is_ambiguous))
        {
            return Err(fault(path, FaultKind::Ambiguous));
        }
        match (kind, value) {
            (Kind::Text | Kind::Typed(_) | Kind::TextList, Value::String(_))
            | (Kind::Boolean, Value::Bool(_)) => Ok(()),
            (Kind::Node | Kind::Link, Value::Object(node)) => self.object(node, path, depth + 1),
            (Kind::Link, Value::String(_)) => absolute(value, path),
            (Kind::Vocabulary(names), Value::String(name))
                if names.iter().any(|(known, _)| known == name) =>
            {
                Ok(())
            }
            _ => Err(fault(path, FaultKind::Value)),
        }
    }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    let list = match value {
        Value::Array(list) => list.as_slice(),
        one => std::slice::from_ref(one),
    };
    list.iter()
}

/// Checks for an IRI with its own scheme. A blank node label would let nodes refer to each other in
/// cycles.
fn absolute(value: &Value, path: &str) -> Result<(), Fault> {
    let iri = value
        .as_str()
        .ok_or_else(|| fault(path, FaultKind::Value))?;
    // The same parser later decides which characters an IRI may contain.
    match oxrdf::NamedNode::new(iri) {
        Ok(_) if !iri.starts_with("_:") => Ok(()),
        _ => Err(fault(path, FaultKind::Iri)),
    }
}
