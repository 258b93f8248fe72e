//! JSON-LD contexts made of the table of terms, in the place of the published files.
//!
//! They say less than those files: what is not in the table is not defined. What they do say comes to the same N-Quads,
//! octet for octet; tests hold that against fixed digests, and against the published files where those are at hand.

use serde_json::{Map, Value, json};

use super::terms::{Kind, Term, Vocabulary, vocabulary};

/// The context a document is read with when it names `url`.
pub fn context(url: &str) -> Option<Value> {
    vocabulary(url).map(|known| json!({ "@context": definitions(known) }))
}

fn definitions(vocabulary: &Vocabulary) -> Map<String, Value> {
    let mut all = aliases();
    all.extend(vocabulary.terms.iter().map(definition));
    for class in vocabulary.types {
        let mut own = aliases();
        own.extend(class.terms.iter().map(definition));
        let iri = format!("{}{}", class.prefix, class.rest);
        all.insert(
            class.name.to_owned(),
            json!({ "@id": iri, "@context": own }),
        );
    }
    all
}

fn aliases() -> Map<String, Value> {
    ["id", "type"]
        .map(|name| (name.to_owned(), Value::String(format!("@{name}"))))
        .into_iter()
        .collect()
}

fn definition(term: &Term) -> (String, Value) {
    let mut said = Map::new();
    said.insert(
        "@id".to_owned(),
        Value::String(format!("{}{}", term.prefix, term.rest)),
    );
    let (key, value) = match term.kind {
        Kind::Text | Kind::Node => return (term.name.to_owned(), Value::Object(said)),
        Kind::Typed(iri) => ("@type", json!(iri)),
        Kind::Boolean => ("@type", json!("https://www.w3.org/2001/XMLSchema#boolean")),
        Kind::TextList => ("@container", json!("@list")),
        Kind::Link => ("@type", json!("@id")),
        Kind::Vocabulary(names) => {
            let names: Map<String, Value> = names
                .iter()
                .map(|(name, iri)| ((*name).to_owned(), json!(iri)))
                .collect();
            said.insert("@context".to_owned(), Value::Object(names));
            ("@type", json!("@vocab"))
        }
    };
    said.insert(key.to_owned(), value);
    (term.name.to_owned(), Value::Object(said))
}
