//! Installed agents.

use serde_json::Value;

use super::{Closed, each};
use crate::wire::v2::translation::Unprojectable;

pub fn inventory(body: Value) -> Result<Value, Unprojectable> {
    let mut inventory = Closed::of("AgentInventory", body)?;
    let agents = inventory.list("agents")?;
    inventory.put("agents", each(agents, entry)?);
    inventory.keep(&["total"])?;
    Ok(inventory.done())
}

pub fn entry(body: Value) -> Result<Value, Unprojectable> {
    let mut entry = Closed::of("AgentInventoryEntry", body)?;
    entry.keep(&[
        "agentId",
        "persona",
        "label",
        "modelClass",
        "packName",
        "packVersion",
        "toolAllowlist",
        "hasHandoffSchemas",
    ])?;
    entry.keep_any(&[
        "description",
        "memoryShape",
        "confidenceThreshold",
        "degraded",
    ]);
    Ok(entry.done())
}
