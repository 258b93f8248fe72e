//! Schemas of a description, compiled once on first use.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use jsonschema::Validator;
use serde_json::{Value, json};

/// The schemas of one document.
pub struct Schemas {
    components: Value,
    compiled: Mutex<HashMap<String, Arc<Validator>>>,
}

impl Schemas {
    /// The schemas of an OpenAPI or AsyncAPI document.
    pub fn of(document: &Value) -> Self {
        Self {
            components: json!({"schemas": document["components"]["schemas"]}),
            compiled: Mutex::default(),
        }
    }

    /// Compiles a schema together with the components, so that its references resolve.
    pub fn compiled(&self, schema: &Value) -> Arc<Validator> {
        let mut compiled = self.compiled.lock().unwrap();
        let compile = || {
            let mut whole = schema.clone();
            let members = whole.as_object_mut().unwrap();
            members.insert("components".to_owned(), self.components.clone());
            Arc::new(jsonschema::draft202012::new(&whole).unwrap())
        };
        compiled
            .entry(schema.to_string())
            .or_insert_with(compile)
            .clone()
    }
}

/// The validation errors of a value.
pub fn faults(validator: &Validator, value: &Value) -> Vec<String> {
    validator
        .iter_errors(value)
        .map(|fault| format!("{}: {fault}", fault.instance_path()))
        .collect()
}
