//! OpenWOP's published schemas, where they are available.

use std::collections::BTreeMap;
use std::path::Path;

use jsonschema::{Registry, Validator};
use serde_json::{Value, json};

use super::reference::shared;
use super::schemas::faults;

/// All schemas, by the name before `.schema.json`.
pub struct Published {
    pub schemas: BTreeMap<String, Value>,
    registry: Registry<'static>,
}

impl Published {
    /// Reads them; `None`, with a printed note, if they are not available.
    pub fn at_hand() -> Option<Self> {
        let schemas = read(&shared("openwop/schemas")?);
        let registry = schemas
            .values()
            .fold(Registry::new(), |registry, schema| {
                registry
                    .add(schema["$id"].as_str().unwrap(), schema.clone())
                    .unwrap()
            })
            .prepare()
            .unwrap();
        Some(Self { schemas, registry })
    }

    /// Compiles a schema that may refer to any of them.
    pub fn compile(&self, schema: &Value) -> Validator {
        jsonschema::options()
            .with_registry(&self.registry)
            .offline()
            .build(schema)
            .unwrap()
    }

    /// Fails unless a document conforms to the named schema.
    pub fn check(&self, name: &str, document: &Value) {
        let faults = faults(&self.compile(&self.schemas[name]), document);
        assert!(faults.is_empty(), "{name}: {faults:?} in {document}");
    }

    /// The payload schemas, by event type.
    pub fn payloads(&self) -> BTreeMap<&str, Value> {
        let payloads = &self.schemas["run-event-payloads"];
        let id = payloads["$id"].as_str().unwrap();
        let index = payloads["$defs"]["_typeIndex"]["properties"]
            .as_object()
            .unwrap();
        index
            .iter()
            .map(|(kind, schema)| {
                let reference = schema["$ref"].as_str().unwrap();
                (kind.as_str(), json!({"$ref": format!("{id}{reference}")}))
            })
            .collect()
    }
}

fn read(folder: &Path) -> BTreeMap<String, Value> {
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let schemas = files.filter(|path| path.extension().is_some_and(|e| e == "json"));
    schemas
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            let name = name.strip_suffix(".schema.json").unwrap().to_owned();
            (
                name,
                serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap(),
            )
        })
        .collect()
}
