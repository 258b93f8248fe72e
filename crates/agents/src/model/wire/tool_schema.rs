//! The description and arguments of a tool for the model.

use serde::Serialize;
use serde_json::Value;

use crate::rules::ModelRequest;

/// The schema of a tool's arguments.
#[derive(Serialize)]
#[serde(untagged)]
pub enum ToolArguments<'a> {
    /// The schema from its server.
    Known(&'a Value),
    /// Packs declare no tool schemas, so any object is accepted.
    Any(AnyObject),
}

/// The schema of any object.
#[derive(Serialize)]
pub struct AnyObject {
    r#type: &'static str,
    #[serde(rename = "additionalProperties")]
    additional_properties: bool,
}

/// The schema of the arguments of an offered tool.
pub fn arguments_of<'a>(request: &'a ModelRequest<'_>, tool: &str) -> ToolArguments<'a> {
    match request.definition(tool) {
        Some(definition) => ToolArguments::Known(&definition.input_schema),
        None => ToolArguments::Any(AnyObject {
            r#type: "object",
            additional_properties: true,
        }),
    }
}

/// The description of an offered tool, or its name if it has no description.
pub fn description_of<'a>(request: &'a ModelRequest<'_>, tool: &'a str) -> &'a str {
    let description = request.definition(tool).map(|it| it.description.as_deref());
    description.flatten().unwrap_or(tool)
}
