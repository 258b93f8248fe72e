//! The verification of the audit log.

use serde_json::Value;

use super::{Closed, each};
use crate::wire::v2::translation::Unprojectable;

pub fn verified(body: Value) -> Result<Value, Unprojectable> {
    let mut found = Closed::of("AuditVerifyResult", body)?;
    found.keep(&["fromSeq", "toSeq", "chainValid"])?;
    found.keep_any(&["checkpointsValid"]);
    let checkpoints = found.list("checkpoints")?;
    found.put("checkpoints", each(checkpoints, checkpoint)?);
    let anomalies = found.list("anomalies")?;
    found.put("anomalies", each(anomalies, anomaly)?);
    Ok(found.done())
}

fn checkpoint(body: Value) -> Result<Value, Unprojectable> {
    let mut point = Closed::of("AuditCheckpoint", body)?;
    point.keep(&["checkpoint", "atSequence", "merkleRoot", "signature"])?;
    Ok(point.done())
}

fn anomaly(body: Value) -> Result<Value, Unprojectable> {
    let mut anomaly = Closed::of("AuditAnomaly", body)?;
    anomaly.keep(&["atSeq"])?;
    anomaly.keep_any(&["expectedPrevHash", "actualPrevHash"]);
    Ok(anomaly.done())
}
