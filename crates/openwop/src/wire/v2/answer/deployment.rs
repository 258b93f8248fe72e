//! Deployments of agents.

use serde_json::Value;

use super::{Closed, each};
use crate::wire::v2::translation::{Context, Unprojectable};

/// The records of an agent, a bare array.
pub fn list(context: &Context<'_>, body: Value) -> Result<Value, Unprojectable> {
    match body {
        Value::Array(records) => each(records, |one| record(context, one)),
        _ => Err(Unprojectable {
            of: "AgentDeployments".to_owned(),
            keys: Vec::new(),
        }),
    }
}

/// The record of a version. `approvalGateId` is not an id with a tenant.
pub fn record(context: &Context<'_>, body: Value) -> Result<Value, Unprojectable> {
    let mut record = Closed::of("AgentDeployment", body)?;
    record.keep(&["agentId", "version", "state"])?;
    record.keep_any(&[
        "canaryPercent",
        "rollbackPointer",
        "channels",
        "approvalGateId",
    ]);
    record.bind_any(context, "evalRunId")?;
    Ok(record.done())
}
