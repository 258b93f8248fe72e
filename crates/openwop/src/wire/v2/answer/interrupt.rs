//! Answers about interrupts.

use serde_json::Value;

use super::Closed;
use crate::wire::v2::payload::interrupt_key;
use crate::wire::v2::translation::{Context, Unprojectable};

/// What an interrupt asks. Its token, its links and its times have no seat.
pub fn requested(body: Value) -> Result<Value, Unprojectable> {
    let mut asked = Closed::of("InterruptPayload", body)?;
    let key = asked.text("key")?;
    asked.put("key", interrupt_key(&key));
    asked.keep(&["kind", "data"])?;
    asked.keep_any(&["resumeSchema", "timeoutMs"]);
    Ok(asked.done())
}

pub fn resolved(context: &Context<'_>, body: Value) -> Result<Value, Unprojectable> {
    let mut answered = Closed::of("InterruptResolved", body)?;
    answered.bind(context, "runId")?;
    answered.keep(&["nodeId", "status"])?;
    Ok(answered.done())
}
