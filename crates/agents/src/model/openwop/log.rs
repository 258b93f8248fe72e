//! Parses the log of a run: its result and its usage (OpenWOP run-event).

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::model::wire::reported;
use crate::model::wire::reported::Count;
use crate::ports::model::ModelError;
use crate::rules::{ModelReply, TokenUsage};
use touchstone_kit::money::NanoUsd;

/// A log up to the last event that was read.
#[derive(Debug, Default)]
pub struct Log {
    /// Some hosts number from 0.
    last: Option<u64>,
    usage: Option<TokenUsage>,
    usage_invalid: bool,
    cost: Option<NanoUsd>,
    cost_invalid: bool,
    waits: bool,
    ended: bool,
    complete: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    events: Vec<Entry>,
    #[serde(default)]
    is_complete: bool,
}

#[derive(Deserialize)]
struct Entry {
    sequence: u64,
    r#type: String,
    #[serde(default)]
    payload: Value,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Usage {
    input_tokens: Count,
    output_tokens: Count,
    cost_estimate_usd: Option<Value>,
}

impl Log {
    /// The sequence number of the last event that was read.
    pub fn last(&self) -> Option<u64> {
        self.last
    }

    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether the other host reports that no more events will come.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Reads a page; returns the result if the run has ended.
    ///
    /// # Errors
    /// The document is not a page of a log.
    pub fn take(
        &mut self,
        page: &[u8],
    ) -> Result<Option<Result<ModelReply, ModelError>>, ModelError> {
        let page: Page = reported::parse(page)
            .ok_or_else(|| ModelError::unavailable("malformed_reply", false))?;
        self.complete = page.is_complete;
        for entry in page.events {
            // Events that were already read are not counted twice.
            if self.last.is_some_and(|last| entry.sequence <= last) {
                continue;
            }
            self.last = Some(entry.sequence);
            let end = match entry.r#type.as_str() {
                "provider.usage" => {
                    self.count(entry.payload);
                    continue;
                }
                "run.completed" => Ok(self.reply(entry.payload)),
                "run.failed" => Err(ModelError::unavailable("agent_failed", false)),
                "run.cancelled" => Err(ModelError::unavailable("agent_canceled", false)),
                "interrupt.requested" => {
                    self.waits = true;
                    continue;
                }
                "interrupt.resolved" => {
                    self.waits = false;
                    continue;
                }
                _ => continue,
            };
            self.ended = true;
            return Ok(Some(end));
        }
        // No one can answer or approve.
        let waits = || Err(ModelError::unavailable("agent_waits", false));
        Ok(self.waits.then(waits))
    }

    fn count(&mut self, payload: Value) {
        let Ok(used) = serde_json::from_value::<Usage>(payload) else {
            self.usage_invalid = true;
            return;
        };
        let (Some(input), Some(output)) =
            (used.input_tokens.or_zero(), used.output_tokens.or_zero())
        else {
            self.usage_invalid = true;
            return;
        };
        let sum = self.usage.get_or_insert_default();
        sum.input = sum.input.saturating_add(input);
        sum.output = sum.output.saturating_add(output);
        let Some(cost) = used.cost_estimate_usd else {
            return;
        };
        match cost.as_f64().and_then(NanoUsd::from_usd) {
            Some(cost) => self.cost = Some(self.cost.unwrap_or_default() + cost),
            None => self.cost_invalid = true,
        }
    }

    fn reply(&self, payload: Value) -> ModelReply {
        let outputs = match payload {
            Value::Object(mut members) => members.remove("outputs").unwrap_or_default(),
            _ => Value::Null,
        };
        let said = match outputs {
            Value::Object(members) => only(members),
            other => other,
        };
        ModelReply {
            text: match said {
                Value::Null => None,
                Value::String(text) => Some(text),
                other => Some(other.to_string()),
            },
            // Without the calls whose usage is invalid, the sum would be too small.
            usage: self.usage.filter(|_| !self.usage_invalid),
            usage_invalid: self.usage_invalid,
            cost: self
                .cost
                .filter(|_| !self.usage_invalid && !self.cost_invalid),
            ..ModelReply::default()
        }
    }
}

/// A single output is the answer itself.
fn only(mut outputs: Map<String, Value>) -> Value {
    let name = outputs.keys().next().cloned();
    match name {
        Some(name) if outputs.len() == 1 => outputs.remove(&name).unwrap_or_default(),
        None => Value::Null,
        _ => Value::Object(outputs),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn reply(usage: &[Value]) -> ModelReply {
        let used = usage.iter().zip(1..).map(|(payload, sequence)| {
            json!({"sequence": sequence, "type": "provider.usage", "payload": payload})
        });
        let end = json!({"sequence": 99, "type": "run.completed", "payload": {"outputs": "hi"}});
        let events: Vec<Value> = used.chain([end]).collect();
        let page = json!({"events": events, "isComplete": true}).to_string();
        let end = Log::default().take(page.as_bytes()).unwrap();
        end.unwrap().unwrap()
    }

    #[rstest]
    #[case(json!("nothing"))]
    #[case(json!({"inputTokens": -1, "outputTokens": 2, "costEstimateUsd": 0.1}))]
    fn usage_that_cannot_be_counted_makes_the_sum_invalid(#[case] odd: Value) {
        let good = json!({"inputTokens": 10, "outputTokens": 2, "costEstimateUsd": 0.1});
        let reply = reply(&[good, odd]);
        assert_eq!(reply.text.as_deref(), Some("hi"));
        assert_eq!((reply.usage, reply.usage_invalid), (None, true));
        assert_eq!(reply.cost, None);
    }

    #[rstest]
    #[case(json!("free"))]
    #[case(json!(-0.5))]
    fn an_invalid_cost_voids_the_total_cost_but_not_the_token_counts(#[case] cost: Value) {
        let good = json!({"inputTokens": 10, "outputTokens": 2, "costEstimateUsd": 0.1});
        let odd = json!({"inputTokens": 5, "outputTokens": 1, "costEstimateUsd": cost});
        let reply = reply(&[good, odd]);
        let usage = reply.usage.unwrap();
        assert_eq!((usage.input, usage.output), (15, 3));
        assert_eq!(reply.cost, None);
    }
}
