//! Workflow definitions.

use serde_json::Value;

use super::Closed;
use crate::wire::v2::translation::{Context, Unprojectable};

pub fn definition(context: &Context<'_>, body: Value) -> Result<Value, Unprojectable> {
    let mut workflow = Closed::of("WorkflowDefinition", body)?;
    let id = workflow.text("id")?;
    workflow.put("id", (context.parts.workflow)(&id));
    workflow.keep(&[
        "name",
        "version",
        "nodes",
        "edges",
        "triggers",
        "variables",
        "metadata",
        "settings",
    ])?;
    workflow.keep_any(&["description", "channels", "configurableSchema"]);
    Ok(workflow.done())
}
