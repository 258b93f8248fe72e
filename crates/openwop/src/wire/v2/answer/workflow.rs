//! Workflow definitions.

use serde_json::Value;

use super::Closed;
use crate::wire::v2::names;
use crate::wire::v2::translation::Unprojectable;

pub fn definition(body: Value) -> Result<Value, Unprojectable> {
    let mut workflow = Closed::of("WorkflowDefinition", body)?;
    let id = workflow.text("id")?;
    workflow.put("id", names::workflow(&id));
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
