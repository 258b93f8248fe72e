//! Whether the conversations of a run can be held, and its files be sent: with the agent's
//! protocol, and with the model that plays its users.

use crate::rules::eval::scoring_document::ScoringDocument;
use crate::rules::run::record::{EvalSpec, ModelPin, UserPin};
use touchstone_kit::error::Problem;
use touchstone_kit::ids::TaskId;

/// The protocol of remote agents that only receive the task's input, without files.
const INPUT_ONLY: &str = "openwop";
/// The protocol of remote agents that keep the conversation themselves.
const KEEPS_HISTORY: &str = "a2a";

/// The model that plays simulated users.
#[derive(Clone, Debug, PartialEq)]
pub struct UserFacts {
    pub model: ModelPin,
    /// Whether its cost is known.
    pub is_priced: bool,
}

/// Checks the conversations of the run's tasks, and returns what plays their users, if any is
/// simulated.
///
/// # Errors
/// `validation_error` with the remedy.
pub fn plan_user(
    spec: &EvalSpec,
    scoring: &ScoringDocument,
    user: Option<&UserFacts>,
) -> Result<Option<UserPin>, Problem> {
    let of_task = |id: TaskId| scoring.conversation(&id).map(|it| (id, it));
    let conversations = || spec.tasks.iter().filter_map(of_task);
    let Some((first, _)) = conversations().next() else {
        return Ok(None);
    };
    let provider = spec.model.provider.as_str();
    if provider == INPUT_ONLY {
        let message = format!(
            "task `{first}` is a conversation, but an agent behind the protocol `{provider}` \
             receives only the input; use a model endpoint, an A2A agent or --agent-command, or \
             select other tasks"
        );
        return Err(refusal(message, "conversation_unsupported"));
    }
    let mut with_history = conversations().filter(|(_, it)| !it.messages.is_empty());
    if let (true, Some((id, _))) = (provider == KEEPS_HISTORY, with_history.next()) {
        let message = format!(
            "task `{id}` has earlier `messages`, but an A2A agent keeps its conversations itself \
             and cannot be given others; use `turns`, a model endpoint or --agent-command, or \
             select other tasks"
        );
        return Err(refusal(message, "conversation_unsupported"));
    }
    let simulated = || conversations().filter_map(|(id, it)| Some((id, it.user.as_ref()?)));
    let Some((first, _)) = simulated().next() else {
        return Ok(None);
    };
    let Some(user) = user else {
        let message = format!(
            "task `{first}` has a simulated user, but no model plays it; set `[simulated_user]` in \
             the configuration, or use --user-url and --user-model"
        );
        return Err(refusal(message, "user_missing"));
    };
    let limited = || simulated().find(|(_, it)| it.max_cost_usd.is_some());
    if let (false, Some((id, _))) = (user.is_priced, limited()) {
        let message = format!(
            "task `{id}` limits the cost of its simulated user (`maxCostUsd`), but the model `{}` \
             has no price; set `input_usd_per_mtok` and `output_usd_per_mtok` in \
             `[simulated_user]`, pass --user-price, or remove the limit",
            user.model.model
        );
        return Err(refusal(message, "user_price_missing"));
    }
    Ok(Some(UserPin::of(&user.model)))
}

/// Whether a task of the run sends files.
///
/// # Errors
/// `validation_error` if the agent's protocol has no place for them.
pub fn plan_files(spec: &EvalSpec, scoring: &ScoringDocument) -> Result<bool, Problem> {
    let has_files = |id: &TaskId| !scoring.attachments(id).is_empty();
    let Some(first) = spec.tasks.iter().find(has_files) else {
        return Ok(false);
    };
    if spec.model.provider == INPUT_ONLY {
        let message = format!(
            "task `{first}` has attachments, but an agent behind the protocol `{INPUT_ONLY}` \
             receives only the input; use a model endpoint, an A2A agent or --agent-command, or \
             select other tasks"
        );
        return Err(refusal(message, "attachments_unsupported"));
    }
    Ok(true)
}

/// The refusal of files of a suite that has no pack.
pub fn no_pack() -> Problem {
    let message = "the suite attaches files, which are in its pack, but it was imported without one; \
                   evaluate the folder of the pack, or install the pack";
    refusal(message.to_owned(), "attachments_missing")
}

fn refusal(message: String, reason: &str) -> Problem {
    Problem::validation("evalSuiteRef", message).with("reason", reason)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::rules::run::task_ids::TaskIds;

    fn spec(provider: &str) -> EvalSpec {
        serde_json::from_value(json!({
            "suiteId": "vendor.acme.evals.triage", "suiteVersion": "1.0.0", "suiteDigest": "sha256-x",
            "suiteSigned": true, "suiteTaskCount": 2, "agentId": "vendor.acme.triage.default",
            "agentVersion": "1.0.0", "packIntegrity": "sha256-y", "modelClass": "general",
            "model": {"provider": provider, "model": "large-1"}, "modes": ["golden"], "tasks": ["a"],
            "concurrency": 4,
        }))
        .unwrap()
    }

    fn scoring(conversation: &Value) -> ScoringDocument {
        serde_json::from_value(json!({
            "scoringVersion": 1, "suiteId": "vendor.acme.evals.triage",
            "tasks": {"a": {"conversation": conversation}},
        }))
        .unwrap()
    }

    fn user(is_priced: bool) -> UserFacts {
        UserFacts {
            model: ModelPin {
                provider: "openai".to_owned(),
                model: "user-1".to_owned(),
            },
            is_priced,
        }
    }

    #[rstest]
    #[case::script("openai", json!({"turns": ["b"]}), None, None)]
    #[case::script_for_a_command("command", json!({"turns": ["b"]}), None, None)]
    #[case::script_for_an_a2a_agent("a2a", json!({"turns": ["b"]}), None, None)]
    #[case::messages_for_an_a2a_agent("a2a", json!({"messages": [{"role": "user", "content": "a"}]}), None, Some("conversation_unsupported"))]
    #[case::messages_for_a_workflow("openwop", json!({"messages": [{"role": "user", "content": "a"}]}), None, Some("conversation_unsupported"))]
    #[case::nobody("openai", json!({"user": {"goal": "g"}}), None, Some("user_missing"))]
    #[case::somebody("openai", json!({"user": {"goal": "g"}}), Some(user(false)), None)]
    #[case::limit_without_price("openai", json!({"user": {"goal": "g", "maxCostUsd": 1}}), Some(user(false)), Some("user_price_missing"))]
    #[case::limit("openai", json!({"user": {"goal": "g", "maxCostUsd": 1}}), Some(user(true)), None)]
    fn a_conversation_that_cannot_be_held_is_refused_before_the_run(
        #[case] provider: &str,
        #[case] conversation: Value,
        #[case] user: Option<UserFacts>,
        #[case] refused: Option<&str>,
    ) {
        let planned = plan_user(&spec(provider), &scoring(&conversation), user.as_ref());
        let reason = planned
            .err()
            .map(|problem| problem.details["reason"].clone());
        assert_eq!(reason, refused.map(Value::from));
    }

    #[rstest]
    #[case("openai", Ok(true))]
    #[case("a2a", Ok(true))]
    #[case("openwop", Err("attachments_unsupported"))]
    fn files_are_refused_where_they_cannot_be_sent(
        #[case] provider: &str,
        #[case] expected: Result<bool, &str>,
    ) {
        let scoring: ScoringDocument = serde_json::from_value(json!({
            "scoringVersion": 1, "suiteId": "vendor.acme.evals.triage", "tasks": {"a": {"attachments": [
                {"path": "evals/files/a.png", "sha256": "a".repeat(64), "mediaType": "image/png"}]}},
        }))
        .unwrap();
        let planned = plan_files(&spec(provider), &scoring);
        let planned = planned.map_err(|problem| problem.details["reason"].clone());
        assert_eq!(planned, expected.map_err(Value::from));
        let none = ScoringDocument::new("vendor.acme.evals.triage");
        assert!(!plan_files(&spec(provider), &none).unwrap());
    }

    #[test]
    fn tasks_that_do_not_run_need_no_user() {
        let mut spec = spec("openai");
        spec.tasks = TaskIds::from_iter(["b"]);
        let scoring = scoring(&json!({"user": {"goal": "g"}}));
        assert_eq!(plan_user(&spec, &scoring, None).unwrap(), None);
    }

    #[test]
    fn the_user_is_pinned_with_its_model() {
        let scoring = scoring(&json!({"user": {"goal": "g"}}));
        let found = plan_user(&spec("openai"), &scoring, Some(&user(false)));
        let pin = found.unwrap().unwrap();
        assert_eq!(pin.model.model, "user-1");
        assert!(pin.identity.starts_with("sha256-"), "{}", pin.identity);
    }
}
