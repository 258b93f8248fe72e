//! What a model is told of a tool beside its name.

use serde::Serialize;
use serde_json::Value;

use crate::domain::agent::ModelRequest;

/// What arguments a tool takes.
#[derive(Serialize)]
#[serde(untagged)]
pub enum ToolArguments<'a> {
    /// As its server says.
    Known(&'a Value),
    /// Packs declare no tool schemas, so any object is an argument.
    Any(AnyObject),
}

/// The schema of any object.
#[derive(Serialize)]
pub struct AnyObject {
    r#type: &'static str,
    #[serde(rename = "additionalProperties")]
    additional_properties: bool,
}

/// What arguments a tool on offer takes.
pub fn arguments_of<'a>(request: &'a ModelRequest<'_>, tool: &str) -> ToolArguments<'a> {
    match request.definition(tool) {
        Some(definition) => ToolArguments::Known(&definition.input_schema),
        None => ToolArguments::Any(AnyObject {
            r#type: "object",
            additional_properties: true,
        }),
    }
}

/// What a tool on offer is for: its name, where nothing else is known.
pub fn description_of<'a>(request: &'a ModelRequest<'_>, tool: &'a str) -> &'a str {
    let description = request.definition(tool).map(|it| it.description.as_deref());
    description.flatten().unwrap_or(tool)
}
