//! Runs with a budget (RFC 0084 §C, §D): real eval runs with the budget of a scenario.

use serde_json::{Value, json};

use crate::conformance::{Asked, Errand, Seams, closed, kind_of, suite};
use touchstone_host::service::access::Caller;
use touchstone_kit::error::{ErrorCode, Problem};

/// More than one, so that a call follows after the budget is spent.
const TASKS: u64 = 3;
/// A billionth of a dollar: the first call that costs anything spends it.
const SOON_SPENT_USD: f64 = 0.000_000_001;

impl Seams {
    /// Runs an eval with a budget: `{scenario, agentId?}`.
    ///
    /// # Errors
    /// `validation_error`; `conflict` for a scenario that needs the host's other mode of budget
    /// enforcement; those of creating a run.
    pub async fn budget(&self, caller: &Caller, body: &Value) -> Result<Value, Problem> {
        let members = closed(body, &["scenario", "agentId"])?;
        let spent = json!({"maxCostUsd": SOON_SPENT_USD});
        let (advisory, budget) = match members.get("scenario").and_then(Value::as_str) {
            Some("hard-cost-exhaust") => (Some(false), spent),
            Some("advisory") => (Some(true), spent),
            Some("model-denied") => (None, json!({"modelAllow": ["*"], "modelDeny": ["*"]})),
            _ => {
                return Err(Problem::validation(
                    "scenario",
                    "`scenario` must be `hard-cost-exhaust`, `model-denied` or `advisory`",
                ));
            }
        };
        if advisory.is_some_and(|advisory| advisory != self.runs.has_advisory_budgets()) {
            return Err(Problem::new(
                ErrorCode::Conflict,
                "this host enforces budgets in the other mode; see `budget.enforce` in its \
                 capabilities and `limits.advisory_budgets` in its configuration",
            ));
        }
        let errand = Errand {
            agent: members.get("agentId"),
            configurable: json!({"budget": budget}),
            suite: suite(TASKS),
        };
        let run = self.evaluate(caller, errand).await?;
        let log = self.log(&caller.tenant, &run, &Asked::default()).await?;
        let outcome = log
            .last()
            .and_then(|event| kind_of(event).strip_prefix("run."));
        let error = log
            .iter()
            .find(|event| kind_of(event) == "run.failed")
            .and_then(|event| event.pointer("/payload/error/code"));
        let called = log.iter().any(|event| kind_of(event) == "provider.usage");
        let mut answer = json!({"runId": run, "outcome": outcome, "modelCalled": called});
        if let (Some(error), Some(answer)) = (error, answer.as_object_mut()) {
            answer.insert("error".to_owned(), error.clone());
        }
        Ok(answer)
    }
}
