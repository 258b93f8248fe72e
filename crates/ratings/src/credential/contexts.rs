//! JSON-LD contexts built from the table of terms, in place of the published files.
//!
//! They define less than those files: only what is in the table. Those definitions give the same
//! N-Quads, byte for byte; tests compare them with fixed digests, and with the published files
//! where available.

use serde_json::{Map, Value, json};

use super::terms::{Kind, Term, Vocabulary, vocabulary};

/// The context for a document that names `url`.
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
    let mut definition = Map::new();
    definition.insert(
        "@id".to_owned(),
        Value::String(format!("{}{}", term.prefix, term.rest)),
    );
    let (key, value) = match term.kind {
        Kind::Text | Kind::Node => return (term.name.to_owned(), Value::Object(definition)),
        Kind::Typed(iri) => ("@type", json!(iri)),
        Kind::Boolean => ("@type", json!("https://www.w3.org/2001/XMLSchema#boolean")),
        Kind::TextList => ("@container", json!("@list")),
        Kind::Link => ("@type", json!("@id")),
        Kind::Vocabulary(names) => {
            let names: Map<String, Value> = names
                .iter()
                .map(|(name, iri)| ((*name).to_owned(), json!(iri)))
                .collect();
            definition.insert("@context".to_owned(), Value::Object(names));
            ("@type", json!("@vocab"))
        }
    };
    definition.insert(key.to_owned(), value);
    (term.name.to_owned(), Value::Object(definition))
}
