//! Cost limits need a price: a limit that cannot be enforced is refused before the run starts.

use crate::rules::eval::scoring_document::{Check, ScoringDocument};
use crate::rules::run::record::{EvalSpec, ModelPin};
use touchstone_agents::rules::COMMAND_PROVIDER;
use touchstone_kit::error::Problem;
use touchstone_openwop::suite::Thresholds;

/// The reason of a refusal because a model's price is unknown.
pub const PRICE_UNKNOWN: &str = "price_unknown";

/// Refuses a run with a cost limit and a model without a known price. Its prices are
/// pinned already.
///
/// # Errors
/// `validation_error` that names the limit, the model and the remedy.
pub fn check_cost_limits(
    spec: &EvalSpec,
    thresholds: &Thresholds,
    scoring: Option<&ScoringDocument>,
    is_host_limit_set: bool,
) -> Result<(), Problem> {
    let prices = spec.prices.clone().unwrap_or_default();
    let agent = prices.model.is_none().then_some(&spec.model);
    let judge = spec.judge.as_ref().or(spec.safety_judge.as_ref());
    let judge = judge.filter(|_| prices.judge.is_none());
    if let Some(model) = agent
        && has_cost_assertion(spec, scoring)
    {
        let limit = "the scoring document of the suite has the assertion `cost`, which";
        return Err(refusal("evalSuiteRef", limit, &unknown_of_agent(model)));
    }
    let user = spec.simulated_user.as_ref();
    let user = user.filter(|_| prices.user.is_none());
    let embeddings = spec.deciders.embeddings.as_ref();
    let embeddings = embeddings.filter(|_| prices.embeddings.is_none());
    let unknown = if let Some(model) = agent {
        unknown_of_agent(model)
    } else if let Some(judge) = judge {
        Unknown {
            who: format!("the judge `{}`", judge.model.model),
            remedy: "set `input_usd_per_mtok` and `output_usd_per_mtok` of `[judge]`, or pass \
                     --judge-price, with 0 for a model that costs nothing",
        }
    } else if let Some(user) = user {
        Unknown {
            who: format!("the simulated user `{}`", user.model.model),
            remedy: "set `input_usd_per_mtok` and `output_usd_per_mtok` of `[simulated_user]`, or \
                     pass --user-price, with 0 for a model that costs nothing",
        }
    } else if let Some(pin) = embeddings {
        Unknown {
            who: format!("the embedding model `{}`", pin.model.model),
            remedy: "set `input_usd_per_mtok` of `[embeddings]`, or pass --embeddings-price, with \
                     0 for a model that costs nothing",
        }
    } else {
        return Ok(());
    };
    if spec.budget.max_cost.is_some() && !spec.budget.advisory {
        let field = "configurable.budget.maxCostUsd";
        return Err(refusal(field, &format!("`{field}`"), &unknown));
    }
    if thresholds.max_cost_usd.is_some() {
        let limit = "the suite's threshold `maxCostUsd`";
        return Err(refusal("evalSuiteRef", limit, &unknown));
    }
    // An agent that runs elsewhere is paid for by its operator.
    if is_host_limit_set && spec.cost_ceiling.is_some() && spec.execution.reached_by.is_none() {
        let limit = "`limits.max_cost_usd_per_suite`, which the operator of this host has set,";
        return Err(refusal("agentId", limit, &unknown));
    }
    Ok(())
}

struct Unknown {
    /// Whose price it is.
    who: String,
    remedy: &'static str,
}

fn unknown_of_agent(model: &ModelPin) -> Unknown {
    let remedy = match model.provider == COMMAND_PROVIDER {
        true => "pass --model-price INPUT,OUTPUT, with 0,0 for a command that costs nothing",
        false => {
            "set `input_usd_per_mtok` and `output_usd_per_mtok` of its `[[models]]` entry, add a \
             `[[prices]]` entry, or pass --model-price, with 0 for a model that costs nothing"
        }
    };
    Unknown {
        who: format!("the {} model `{}`", model.provider, model.model),
        remedy,
    }
}

fn refusal(field: &str, limit: &str, unknown: &Unknown) -> Problem {
    Problem::validation(
        field,
        format!(
            "{limit} cannot be enforced, because the price of {} is unknown; {}",
            unknown.who, unknown.remedy
        ),
    )
    .with("reason", PRICE_UNKNOWN)
}

/// Whether a task of the run has the assertion `cost`.
fn has_cost_assertion(spec: &EvalSpec, scoring: Option<&ScoringDocument>) -> bool {
    let is_cost = |check: &Check| matches!(check, Check::Cost(_));
    scoring.is_some_and(|scoring| {
        let mut tasks = spec.tasks.iter();
        tasks.any(|task| scoring.of_task(&task).is_some_and(|it| it.has(is_cost)))
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    const PRICED: &str = r#"{"inputUsdPerMtok": 0, "outputUsdPerMtok": 0, "source": "configured"}"#;

    fn spec(change: impl FnOnce(&mut Value)) -> EvalSpec {
        let mut spec = json!({
            "suiteId": "vendor.acme.evals.triage", "suiteVersion": "1.0.0", "suiteDigest": "sha256-x",
            "suiteSigned": true, "suiteTaskCount": 2, "agentId": "vendor.acme.triage.default",
            "agentVersion": "1.0.0", "packIntegrity": "sha256-y", "modelClass": "general",
            "model": {"provider": "openai", "model": "large-1"}, "modes": ["golden"], "tasks": ["a", "b"],
            "concurrency": 4, "costCeiling": 25.0, "prices": {},
        });
        change(&mut spec);
        serde_json::from_value(spec).unwrap()
    }

    fn priced() -> Value {
        serde_json::from_str(PRICED).unwrap()
    }

    fn limited(usd: f64) -> Thresholds {
        serde_json::from_value(json!({"maxCostUsd": usd})).unwrap()
    }

    fn refused(result: Result<(), Problem>) -> Option<String> {
        let problem = result.err()?;
        assert_eq!(problem.details.get("reason"), Some(&json!(PRICE_UNKNOWN)));
        Some(problem.message)
    }

    #[test]
    fn a_run_without_a_cost_limit_needs_no_price() {
        let run = spec(|_| {});
        check_cost_limits(&run, &Thresholds::default(), None, false).unwrap();
    }

    #[test]
    fn every_limit_without_a_price_is_refused_and_names_model_and_remedy() {
        let budget = spec(|it| it["budget"] = json!({"maxCost": 1.0}));
        let plain = spec(|_| {});
        let none = Thresholds::default();
        for (found, limit) in [
            (
                check_cost_limits(&budget, &none, None, false),
                "configurable.budget.maxCostUsd",
            ),
            (
                check_cost_limits(&plain, &limited(0.5), None, false),
                "threshold `maxCostUsd`",
            ),
            (
                check_cost_limits(&plain, &none, None, true),
                "limits.max_cost_usd_per_suite",
            ),
        ] {
            let message = refused(found).unwrap();
            assert!(message.contains(limit), "{message}");
            assert!(message.contains("openai model `large-1`"), "{message}");
            assert!(message.contains("--model-price"), "{message}");
        }
    }

    #[test]
    fn a_price_of_zero_is_known() {
        let run = spec(|it| {
            it["budget"] = json!({"maxCost": 1.0});
            it["prices"] = json!({"model": priced()});
        });
        check_cost_limits(&run, &limited(0.5), None, true).unwrap();
    }

    #[test]
    fn a_judge_needs_a_price_too() {
        let judged = |prices: Value| {
            spec(|it| {
                it["judge"] =
                    json!({"provider": "openai", "model": "judge-1", "identity": "sha256-j"});
                it["prices"] = prices;
            })
        };
        let run = judged(json!({"model": priced()}));
        let message = refused(check_cost_limits(&run, &limited(0.5), None, false)).unwrap();
        assert!(message.contains("the judge `judge-1`"), "{message}");
        let run = judged(json!({"model": priced(), "judge": priced()}));
        check_cost_limits(&run, &limited(0.5), None, false).unwrap();
    }

    #[rstest]
    #[case::advisory(json!({"budget": {"maxCost": 1.0, "advisory": true}}))]
    #[case::other_limits(json!({"budget": {"maxTokens": 100}}))]
    fn a_budget_that_limits_no_cost_needs_no_price(#[case] members: Value) {
        let run = spec(|it| {
            let members = members.as_object().unwrap().clone();
            it.as_object_mut().unwrap().extend(members);
        });
        check_cost_limits(&run, &Thresholds::default(), None, false).unwrap();
    }

    #[rstest]
    #[case::of_a_task(json!({"tasks": {"a": {"assertions": [{"type": "cost", "maxUsd": 0.1}]}}}), true)]
    #[case::nested(json!({"defaults": {"assertions": [
        {"type": "any", "assertions": [{"type": "cost", "maxUsd": 0.1}, {"type": "refusal"}]}]}}), true)]
    #[case::of_another_task(json!({"tasks": {"c": {"assertions": [{"type": "cost", "maxUsd": 0.1}]}}}), false)]
    #[case::other(json!({"tasks": {"a": {"assertions": [{"type": "tokens", "max": 10}]}}}), false)]
    fn a_cost_assertion_of_a_task_in_the_run_needs_a_price(
        #[case] members: Value,
        #[case] is_refused: bool,
    ) {
        let mut document = json!({"scoringVersion": 1, "suiteId": "vendor.acme.evals.triage"});
        document
            .as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        let scoring: ScoringDocument = serde_json::from_value(document).unwrap();
        let found = check_cost_limits(&spec(|_| {}), &Thresholds::default(), Some(&scoring), false);
        assert_eq!(refused(found).is_some(), is_refused);
    }
}
