use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Map, Value, json};

use super::options::flat;
use super::*;
use touchstone_kit::error::{ErrorCode, Problem};

const TENANT: &str = "acme";

fn context() -> Context<'static> {
    Context { tenant: TENANT }
}

fn workflow() -> Value {
    json!({"workflowId": "conformance-noop"})
}

fn eval() -> Value {
    json!({"mode": "eval", "evalSuiteRef": "vendor.acme.evals.triage@1.0.0", "agentId": "vendor.acme.triage"})
}

/// A body with a member, at a pointer whose objects are made.
fn with(mut body: Value, pointer: &str, value: Value) -> Value {
    let mut at = &mut body;
    for name in pointer.split('/').skip(1) {
        if !at.is_object() {
            *at = json!({});
        }
        at = at
            .as_object_mut()
            .unwrap()
            .entry(name)
            .or_insert(Value::Null);
    }
    *at = value;
    body
}

fn versioned(body: Value, pointer: &str, value: Value) -> Value {
    let body = with(body, "/configurable/version", json!(1));
    with(body, &format!("/configurable{pointer}"), value)
}

fn sent(operation: &str, body: Value) -> Result<Value, Refusal> {
    let given = Inner {
        query: Vec::new(),
        body: Some(body),
    };
    let inner = request(operation, &context(), given)?;
    Ok(inner.body.unwrap())
}

fn query(operation: &str, text: &str) -> Result<String, Refusal> {
    let pair = |it: &str| {
        let (name, value) = it.split_once('=').unwrap();
        (name.to_owned(), value.to_owned())
    };
    let given = Inner {
        query: text
            .split('&')
            .filter(|it| !it.is_empty())
            .map(pair)
            .collect(),
        body: None,
    };
    let inner = request(operation, &context(), given)?;
    let pairs = inner
        .query
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    Ok(pairs.collect::<Vec<_>>().join("&"))
}

fn field(refusal: &Refusal) -> &str {
    match refusal {
        Refusal::Invalid(problem) => {
            assert_eq!(problem.code, ErrorCode::ValidationError);
            let field = problem.details["field"].as_str().unwrap();
            let names = field.is_empty() || problem.message.contains(field);
            assert!(names, "{}: {field}", problem.message);
            field
        }
        Refusal::OtherTenant(_) => "(other tenant)",
    }
}

const OWN: &str = "acme/run_018f3c0000000000";
const FOREIGN: &str = "other/run_018f3c0000000000";
const BARE: &str = "run_018f3c0000000000";

#[rstest]
// The body is closed.
#[case(json!([]), "")]
#[case(json!("x"), "")]
#[case(Value::Null, "")]
#[case(with(workflow(), "/bogus", json!(1)), "bogus")]
#[case(with(workflow(), "/Mode", json!("eval")), "Mode")]
#[case(with(workflow(), "/dedup", json!(true)), "dedup")]
#[case(with(workflow(), "/tags", Value::Null), "tags")]
#[case(with(workflow(), "/mode", Value::Null), "mode")]
#[case(with(workflow(), "/inputs", Value::Null), "inputs")]
#[case(with(workflow(), "/configurable", Value::Null), "configurable")]
#[case(with(workflow(), "/callbackUrl", json!("https://hooks.example.com/a")), "callbackUrl")]
#[case(with(workflow(), "/callbackUrl", json!(7)), "callbackUrl")]
#[case(with(workflow(), "/tenantId", json!("other")), "tenantId")]
#[case(with(workflow(), "/tenantId", json!(7)), "tenantId")]
// So are the options.
#[case(with(workflow(), "/configurable", json!({})), "configurable.version")]
#[case(with(workflow(), "/configurable", json!([])), "configurable")]
#[case(with(workflow(), "/configurable", json!({"version": 2})), "configurable.version")]
#[case(with(workflow(), "/configurable", json!({"version": "1"})), "configurable.version")]
#[case(with(workflow(), "/configurable", json!({"version": null})), "configurable.version")]
#[case(with(workflow(), "/configurable", json!({"run": {}})), "configurable.version")]
#[case(with(workflow(), "/configurable", json!({"runTimeoutMs": 1000})), "configurable.runTimeoutMs")]
#[case(versioned(workflow(), "/bogus", json!({})), "configurable.bogus")]
#[case(versioned(workflow(), "/ai.model", json!("m")), "configurable.ai.model")]
#[case(versioned(workflow(), "/evalModes", json!(["golden"])), "configurable.evalModes")]
#[case(versioned(workflow(), "/baselineRunId", json!(OWN)), "configurable.baselineRunId")]
#[case(versioned(workflow(), "/run", json!([])), "configurable.run")]
#[case(versioned(workflow(), "/run/nope", json!(1)), "configurable.run.nope")]
#[case(versioned(workflow(), "/run/evalModes", json!([])), "configurable.run.evalModes")]
#[case(versioned(workflow(), "/run/runTimeoutMs", json!(0)), "configurable.run.runTimeoutMs")]
#[case(versioned(workflow(), "/run/runTimeoutMs", json!(1.5)), "configurable.run.runTimeoutMs")]
#[case(
    versioned(workflow(), "/run/runTimeoutMs", Value::Null),
    "configurable.run.runTimeoutMs"
)]
#[case(versioned(workflow(), "/run/recursionLimit", json!("9")), "configurable.run.recursionLimit")]
#[case(versioned(workflow(), "/run/maxLoopIterations", json!(-1)), "configurable.run.maxLoopIterations")]
#[case(versioned(workflow(), "/run/escalationThreshold", json!("high")), "configurable.run.escalationThreshold")]
#[case(versioned(workflow(), "/ai/ai.provider", json!("x")), "configurable.ai.ai.provider")]
#[case(versioned(workflow(), "/ai/provider", json!(1)), "configurable.ai.provider")]
#[case(versioned(workflow(), "/ai/model", json!("")), "configurable.ai.model")]
#[case(versioned(workflow(), "/ai/temperature", json!("warm")), "configurable.ai.temperature")]
#[case(versioned(workflow(), "/ai/maxTokens", json!(0)), "configurable.ai.maxTokens")]
#[case(versioned(workflow(), "/ai/credentialRef", json!({})), "configurable.ai.credentialRef")]
#[case(versioned(workflow(), "/ai/promptOverrides", json!({"a": 1})), "configurable.ai.promptOverrides")]
#[case(versioned(workflow(), "/ai/mockProvider", json!("stream")), "configurable.ai.mockProvider")]
#[case(versioned(workflow(), "/ai/reasoningVerbosity", json!("off")), "configurable.ai.reasoningVerbosity")]
#[case(versioned(workflow(), "/ai/maxRefusals", json!(-1)), "configurable.ai.maxRefusals")]
#[case(versioned(workflow(), "/distillation/tokenBudget", json!(0)), "configurable.distillation.tokenBudget")]
#[case(versioned(workflow(), "/budget", json!(3)), "configurable.budget")]
#[case(
    versioned(eval(), "/budget/maxTokens", Value::Null),
    "configurable.budget.maxTokens"
)]
#[case(versioned(workflow(), "/extensions", json!([])), "configurable.extensions")]
#[case(versioned(workflow(), "/extensions/Acme", json!({})), "configurable.extensions.Acme")]
#[case(versioned(workflow(), "/extensions/a_b", json!({})), "configurable.extensions.a_b")]
#[case(versioned(workflow(), "/extensions/a-", json!({})), "configurable.extensions.a-")]
#[case(versioned(workflow(), "/extensions/acme", json!(1)), "configurable.extensions.acme")]
#[case(versioned(eval(), "/extensions/touchstone/model", json!("m")), "configurable.extensions.touchstone.model")]
#[case(versioned(eval(), "/extensions/touchstone/ai.model", json!("m")), "configurable.extensions.touchstone.ai.model")]
#[case(versioned(eval(), "/extensions/touchstone/evalModes", json!(["golden"])), "configurable.extensions.touchstone.evalModes")]
#[case(versioned(eval(), "/extensions/touchstone/extensions", json!({})), "configurable.extensions.touchstone.extensions")]
#[case(
    versioned(eval(), "/extensions/touchstone/evalConcurrency", Value::Null),
    "configurable.extensions.touchstone.evalConcurrency"
)]
#[case(versioned(eval(), "/extensions/touchstone/evalTasks", json!({"failedOf": BARE})), "configurable.extensions.touchstone.evalTasks.failedOf")]
#[case(versioned(eval(), "/extensions/touchstone/evalTasks", json!({"failedOf": FOREIGN})), "(other tenant)")]
// Members about an evaluation.
#[case(with(workflow(), "/evalModes", json!(["golden"])), "evalModes")]
#[case(with(workflow(), "/baselineRunId", json!(OWN)), "baselineRunId")]
#[case(with(workflow(), "/fixtureRuns", json!({"t": OWN})), "fixtureRuns")]
#[case(with(eval(), "/evalModes", Value::Null), "evalModes")]
#[case(with(eval(), "/baselineRunId", json!(OWN)), "baselineRunId")]
#[case(with(with(eval(), "/evalModes", json!(["golden"])), "/baselineRunId", json!(OWN)), "baselineRunId")]
#[case(with(with(eval(), "/evalModes", json!(["regression"])), "/baselineRunId", json!(BARE)), "baselineRunId")]
#[case(with(with(eval(), "/evalModes", json!(["regression"])), "/baselineRunId", json!(7)), "baselineRunId")]
#[case(with(eval(), "/fixtureRuns", json!({})), "fixtureRuns")]
#[case(with(eval(), "/fixtureRuns", json!([])), "fixtureRuns")]
#[case(with(eval(), "/fixtureRuns", json!({"t": 7})), "fixtureRuns")]
#[case(with(eval(), "/fixtureRuns", json!({"t": BARE})), "fixtureRuns")]
fn bodies_of_new_runs_are_refused_by_field(#[case] body: Value, #[case] expected: &str) {
    let refusal = sent("createRun", body.clone()).unwrap_err();
    assert_eq!(field(&refusal), expected, "{body}");
}

#[rstest]
#[case::plain(workflow(), workflow())]
#[case::without_options(with(workflow(), "/configurable", json!({"version": 1})), with(workflow(), "/configurable", json!({})))]
#[case::the_published_client(
    with(workflow(), "/configurable", json!({"version": 1, "run": {"runTimeoutMs": 60000}, "ai": null, "distillation": null, "budget": null, "extensions": null})),
    with(workflow(), "/configurable", json!({"runTimeoutMs": 60000})),
)]
#[case::every_section(
    with(workflow(), "/configurable", json!({
        "version": 1,
        "run": {"recursionLimit": 5, "escalationThreshold": 0.5},
        "ai": {"provider": "p", "model": "m", "temperature": 0.1, "reasoningVerbosity": "none", "maxRefusals": 0},
        "distillation": {"tokenBudget": 100},
        "budget": {"maxTokens": 10},
        "extensions": {"touchstone": {"evalConcurrency": 2}, "acme": {"a": null}},
    })),
    with(workflow(), "/configurable", json!({
        "recursionLimit": 5, "escalationThreshold": 0.5, "ai.provider": "p", "model": "m", "temperature": 0.1,
        "reasoningVerbosity": "off", "ai.maxRefusals": 0, "distillation.tokenBudget": 100, "budget": {"maxTokens": 10},
        "evalConcurrency": 2, "extensions": {"acme": {"a": null}},
    })),
)]
#[case::own_tenant(with(workflow(), "/tenantId", json!("acme")), with(workflow(), "/tenantId", json!("acme")))]
#[case::types_that_the_parser_checks(with(workflow(), "/tags", json!(7)), with(workflow(), "/tags", json!(7)))]
#[case::eval_workflow(json!({"workflowId": "eval:a.b:1.0.0"}), json!({"workflowId": "eval:a.b@1.0.0"}))]
#[case::modes(
    with(eval(), "/evalModes", json!(["golden"])),
    with(eval(), "/configurable", json!({"evalModes": ["golden"]})),
)]
#[case::baseline(
    with(with(eval(), "/evalModes", json!(["regression"])), "/baselineRunId", json!(OWN)),
    with(eval(), "/configurable", json!({"evalModes": ["regression"], "baselineRunId": BARE})),
)]
#[case::baseline_of_another_tenant(
    with(with(eval(), "/evalModes", json!(["regression"])), "/baselineRunId", json!(FOREIGN)),
    with(eval(), "/configurable", json!({"evalModes": ["regression"], "baselineRunId": "/"})),
)]
#[case::fixtures(
    with(versioned(eval(), "/ai/maxTokens", json!(9)), "/fixtureRuns", json!({"t": OWN, "u": FOREIGN})),
    with(eval(), "/configurable", json!({"maxTokens": 9, "fixtureRuns": {"t": BARE, "u": "/"}})),
)]
#[case::failed_tasks(
    versioned(eval(), "/extensions/touchstone/evalTasks", json!({"failedOf": OWN, "limit": 2})),
    with(eval(), "/configurable", json!({"evalTasks": {"failedOf": BARE, "limit": 2}})),
)]
fn bodies_of_new_runs_are_flattened(#[case] body: Value, #[case] expected: Value) {
    assert_eq!(sent("createRun", body).unwrap(), expected);
}

#[rstest]
#[case("cancelRun", json!({"reason": "x"}), Ok(json!({"reason": "x"})))]
#[case("cancelRun", json!({"reason": null}), Err("reason"))]
#[case("cancelRun", json!({"force": true}), Err("force"))]
#[case("pauseRun", json!({"drainPolicy": "immediate"}), Ok(json!({"drainPolicy": "immediate"})))]
#[case("pauseRun", json!({"policy": "immediate"}), Err("policy"))]
#[case("resumeRun", json!({"drainPolicy": "immediate"}), Err("drainPolicy"))]
#[case("bulkCancelRuns", json!({"runIds": [OWN], "all": true}), Err("all"))]
#[case("bulkCancelRuns", json!({"runIds": 7}), Ok(json!({"runIds": 7})))]
#[case("bulkCancelRuns", json!({"runIds": [OWN, BARE, FOREIGN, 7, "/x"]}), Ok(json!({"runIds": [BARE, format!("/{BARE}"), format!("/{FOREIGN}"), 7, "//x"]})))]
#[case("forkRun", json!({"mode": "replay"}), Ok(json!({"mode": "replay"})))]
#[case("forkRun", json!({"mode": "replay", "fromSeq": 0}), Ok(json!({"mode": "replay", "fromSeq": 0})))]
#[case("forkRun", json!({"mode": "branch", "fromSeq": 4}), Ok(json!({"mode": "branch", "fromSeq": 4})))]
#[case("forkRun", json!({"mode": "branch", "fromSeq": -1}), Ok(json!({"mode": "branch", "fromSeq": -1})))]
#[case("forkRun", json!({"mode": "replay", "bogus": 1}), Err("bogus"))]
#[case("forkRun", json!({"mode": "replay", "fromSeq": null}), Err("fromSeq"))]
#[case("forkRun", json!({"mode": "replay", "runOptionsOverlay": {"configurable": {"version": 1}}}), Err("runOptionsOverlay"))]
#[case("forkRun", json!({"mode": "replay", "runOptionsOverlay": {}}), Ok(json!({"mode": "replay", "runOptionsOverlay": {}})))]
#[case("forkRun", json!({"mode": "branch", "runOptionsOverlay": {"evalModes": []}}), Err("runOptionsOverlay.evalModes"))]
#[case("forkRun", json!({"mode": "branch", "runOptionsOverlay": {"tags": null}}), Err("runOptionsOverlay.tags"))]
#[case("forkRun", json!({"mode": "branch", "runOptionsOverlay": {"configurable": {"version": 1, "ai": {"x": 1}}}}), Err("runOptionsOverlay.configurable.ai.x"))]
#[case("forkRun", json!({"mode": "branch", "runOptionsOverlay": {"configurable": {"version": 1, "ai": {"temperature": 1}}, "tags": ["a"]}}),
    Ok(json!({"mode": "branch", "runOptionsOverlay": {"configurable": {"temperature": 1}, "tags": ["a"]}})))]
#[case("registerWebhook", json!({"url": "u", "events": ["agent.tool-called", "run.failed"]}), Ok(json!({"url": "u", "events": ["agent.toolCalled", "run.failed"]})))]
#[case("registerWebhook", json!({"url": "u", "events": ["agent.toolCalled"]}), Err("events"))]
#[case("registerWebhook", json!({"url": "u", "events": ["no.such-event"]}), Err("events"))]
#[case("registerWebhook", json!({"url": "u", "events": ["touchstone.task.reused"]}), Ok(json!({"url": "u", "events": ["touchstone.task.reused"]})))]
#[case("registerWebhook", json!({"url": "u", "events": "run.completed"}), Ok(json!({"url": "u", "events": "run.completed"})))]
#[case("registerWebhook", json!({"url": "u", "events": ["run.failed"], "tenantId": "acme"}), Err("tenantId"))]
#[case("registerWebhook", json!({"url": "u", "events": ["run.failed"], "secret": null}), Err("secret"))]
#[case("transitionAgentDeployment", json!({"version": "1.0.0", "evalRunId": OWN}), Ok(json!({"version": "1.0.0", "evalRunId": BARE})))]
#[case("transitionAgentDeployment", json!({"version": "1.0.0", "evalRunId": FOREIGN}), Ok(json!({"version": "1.0.0", "evalRunId": "/"})))]
#[case("transitionAgentDeployment", json!({"version": "1.0.0", "evalRunId": BARE}), Err("evalRunId"))]
#[case("transitionAgentDeployment", json!({"version": "1.0.0", "evalRunId": 7}), Ok(json!({"version": "1.0.0", "evalRunId": 7})))]
#[case("createAnnotation", json!({"signal": {"kind": "flag"}}), Ok(json!({"signal": {"kind": "flag"}})))]
fn other_bodies_are_closed_and_have_inner_names(
    #[case] operation: &str,
    #[case] body: Value,
    #[case] expected: Result<Value, &str>,
) {
    let found = sent(operation, body);
    assert_eq!(
        found.as_ref().map_err(field),
        expected.as_ref().map_err(|it| *it)
    );
}

#[rstest]
#[case(
    "listRuns",
    "limit=5&cursor=c&status=completed&workflowId=eval:a:1&resumable=true",
    Ok("limit=5&cursor=c&status=completed&workflowId=eval:a@1")
)]
#[case("listRuns", "limit=100000", Ok("limit=100"))]
#[case("listRuns", "limit=99999999999999999999999", Ok("limit=100"))]
#[case("listRuns", "limit=0", Err("limit"))]
#[case("listRuns", "limit=-1", Err("limit"))]
#[case("listRuns", "limit=", Err("limit"))]
#[case(
    "listWebhookDeadLetters",
    "limit=500&cursor=c&status=x",
    Ok("limit=100&cursor=c")
)]
#[case("unregisterWebhook", "tenantId=other", Ok(""))]
#[case("diffRun", "", Err("against"))]
#[case("diffRun", "against=acme~2Frun_1", Ok("against=run_1"))]
#[case("diffRun", "against=acme/run_1", Ok("against=run_1"))]
#[case("diffRun", "against=run_1", Ok("against=run_1"))]
#[case("diffRun", "against=acme~2", Err("against"))]
#[case("diffRun", "against=other~2Frun_1", Err("(other tenant)"))]
#[case("pollRunEvents", "", Ok(""))]
#[case(
    "pollRunEvents",
    "afterSequence=0&timeout=1",
    Ok("afterSequence=0&timeout=1")
)]
#[case("pollRunEvents", "afterSequence=7", Ok("afterSequence=7"))]
#[case("pollRunEvents", "afterSequence=-1", Ok(""))]
#[case("pollRunEvents", "lastSequence=9&since=3", Ok(""))]
#[case("pollRunEvents", "afterSequence=-2", Err("afterSequence"))]
#[case("pollRunEvents", "afterSequence=abc", Err("afterSequence"))]
#[case("pollRunEvents", "afterSequence=+1", Err("afterSequence"))]
#[case(
    "streamRunEvents",
    "streamMode=debug&resumable=true",
    Ok("streamMode=debug&resumable=true")
)]
fn queries_have_inner_names_and_ids(
    #[case] operation: &str,
    #[case] given: &str,
    #[case] expected: Result<&str, &str>,
) {
    let found = query(operation, given);
    assert_eq!(found.as_deref().map_err(field), expected);
}

#[rstest]
#[case("createRun", "configurable.evalModes", "evalModes")]
#[case("createRun", "configurable.model", "configurable.ai.model")]
#[case("createRun", "configurable.ai.model", "configurable.ai.model")]
#[case("createRun", "configurable.ai.provider", "configurable.ai.provider")]
#[case("createRun", "configurable.temperature", "configurable.ai.temperature")]
#[case(
    "createRun",
    "configurable.mockProvider.id",
    "configurable.ai.mockProvider.id"
)]
#[case(
    "createRun",
    "configurable.runTimeoutMs",
    "configurable.run.runTimeoutMs"
)]
#[case(
    "createRun",
    "configurable.budget.maxRetries",
    "configurable.budget.maxRetries"
)]
#[case(
    "createRun",
    "configurable.evalTasks.ids",
    "configurable.extensions.touchstone.evalTasks.ids"
)]
#[case(
    "createRun",
    "configurable.modelX",
    "configurable.extensions.touchstone.modelX"
)]
#[case(
    "createRun",
    "configurable.trial.of",
    "configurable.extensions.touchstone.trial.of"
)]
#[case("createRun", "configurable", "configurable")]
#[case("createRun", "tags", "tags")]
#[case(
    "forkRun",
    "runOptionsOverlay.configurable.maxTokens",
    "runOptionsOverlay.configurable.ai.maxTokens"
)]
#[case("forkRun", "runOptionsOverlay.tags", "runOptionsOverlay.tags")]
#[case("forkRun", "fromSeq", "fromSeq")]
#[case("createAnnotation", "configurable.model", "configurable.model")]
fn refusals_name_the_field_that_the_client_sent(
    #[case] operation: &str,
    #[case] inner: &str,
    #[case] expected: &str,
) {
    let problem = Problem::validation(inner, format!("`{inner}` must be good"));
    let outer = refusal(operation, problem);
    assert_eq!(outer.details["field"], expected);
    assert_eq!(outer.message, format!("`{expected}` must be good"));
}

#[test]
fn the_reason_why_a_run_is_unusable_is_not_told() {
    for (name, reasons) in [
        (
            "baselineRunId",
            ["no such run", "run run_1 cannot be the baseline"],
        ),
        ("fixtureRuns", ["no such run", "run run_1 recorded nothing"]),
    ] {
        let [first, second] = reasons.map(|reason| {
            let problem = Problem::validation(&format!("configurable.{name}"), reason);
            refusal("createRun", problem.with("reason", reason))
        });
        assert_eq!(first.envelope(), second.envelope());
        assert_eq!(
            first.details,
            json!({"field": name}).as_object().unwrap().clone()
        );
        assert!(first.message.contains(name));
    }
}

#[test]
fn a_problem_without_a_field_keeps_its_code_and_details() {
    let problem = Problem::new(ErrorCode::RunAlreadyActive, "not with `configurable.model`");
    let outer = refusal("createRun", problem.with("activeRunId", BARE));
    assert_eq!(outer.code, ErrorCode::RunAlreadyActive);
    assert_eq!(outer.message, "not with `configurable.ai.model`");
    assert_eq!(Value::Object(outer.details), json!({"activeRunId": BARE}));
}

#[rstest]
#[case::nothing(json!({}), Value::Null)]
#[case::not_an_object(json!(7), Value::Null)]
#[case::nulls(json!({"model": null}), Value::Null)]
#[case::eval_members(json!({"evalModes": ["golden"], "baselineRunId": BARE, "fixtureRuns": {}}), Value::Null)]
#[case::alias(json!({"ai.model": "m"}), json!({"version": 1, "ai": {"model": "m"}}))]
#[case::both_names(json!({"ai.model": "a", "model": "m"}), json!({"version": 1, "ai": {"model": "m"}, "extensions": {"touchstone": {"ai.model": "a"}}}))]
#[case::silent(json!({"reasoningVerbosity": "off"}), json!({"version": 1, "ai": {"reasoningVerbosity": "none"}}))]
#[case::other_types(json!({"model": 5, "budget": 3, "maxTokens": 0}), json!({"version": 1, "extensions": {"touchstone": {"model": 5, "budget": 3, "maxTokens": 0}}}))]
#[case::unknown(json!({"extras": {}, "version": 7}), json!({"version": 1, "extensions": {"touchstone": {"extras": {}, "version": 7}}}))]
#[case::others(json!({"extensions": {"acme": {}}, "trial": {"of": 2}}), json!({"version": 1, "extensions": {"acme": {}, "touchstone": {"trial": {"of": 2}}}}))]
#[case::not_others(json!({"extensions": {"touchstone": {}}}), json!({"version": 1, "extensions": {"touchstone": {"extensions": {"touchstone": {}}}}}))]
#[case::run_of_an_option(json!({"evalTasks": {"failedOf": BARE}}), json!({"version": 1, "extensions": {"touchstone": {"evalTasks": {"failedOf": OWN}}}}))]
fn flat_options_are_nested(#[case] flat: Value, #[case] expected: Value) {
    assert_eq!(nested(TENANT, &flat).unwrap_or_default(), expected);
}

/// Any JSON value.
fn json_value() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        "[a-z]{0,3}",
        Just("runId".to_owned()),
        Just("failedOf".to_owned()),
        Just("configurable".to_owned()),
        Just("extensions".to_owned()),
        Just("touchstone".to_owned()),
        Just("version".to_owned()),
        Just("model".to_owned()),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z/~`.]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name.clone(), inner, 0..4)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

fn section(members: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let optional = members
        .into_iter()
        .map(|(name, value)| prop::option::of(value).prop_map(move |it| (name, it)));
    let made = optional.collect::<Vec<_>>().prop_map(|members| {
        let set = members
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Value::Object(set.collect())
    });
    made.boxed()
}

fn whole() -> BoxedStrategy<Value> {
    (1_u64..1000).prop_map(Value::from).boxed()
}

fn text() -> BoxedStrategy<Value> {
    "[a-z]{1,5}".prop_map(Value::from).boxed()
}

/// A `configurable` of major 2 without nulls and empty sections.
fn configurable() -> impl Strategy<Value = Value> {
    let verbosity = prop::sample::select(vec!["none", "summary", "full"]).prop_map(Value::from);
    let options = prop::collection::btree_map("[b-d][a-z]{0,4}", text(), 0..3)
        .prop_map(|it| Value::Object(it.into_iter().collect()));
    let run = section(vec![
        ("recursionLimit", whole()),
        ("runTimeoutMs", whole()),
        ("maxLoopIterations", whole()),
        (
            "escalationThreshold",
            (0.0..1.0).prop_map(Value::from).boxed(),
        ),
    ]);
    let ai = section(vec![
        ("provider", text()),
        ("model", text()),
        ("temperature", (0.0..2.0).prop_map(Value::from).boxed()),
        ("maxTokens", whole()),
        ("credentialRef", text()),
        ("promptOverrides", Just(json!({"system": "x"})).boxed()),
        ("mockProvider", Just(json!({"id": "x"})).boxed()),
        ("reasoningVerbosity", verbosity.boxed()),
        ("maxRefusals", whole()),
    ]);
    let extensions = section(vec![
        ("acme", options.clone().boxed()),
        ("touchstone", options.boxed()),
    ]);
    let whole = section(vec![
        ("run", run),
        ("ai", ai),
        ("distillation", section(vec![("tokenBudget", whole())])),
        ("budget", section(vec![("maxTokens", whole())])),
        ("extensions", extensions),
    ]);
    whole.prop_map(|mut it| {
        let members = it.as_object_mut().unwrap();
        if let Some(extensions) = members.get_mut("extensions").and_then(Value::as_object_mut)
            && extensions.get("touchstone").is_some_and(is_empty)
        {
            extensions.remove("touchstone");
        }
        members.retain(|_, section| !is_empty(section));
        members.insert("version".to_owned(), json!(1));
        it
    })
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}

const OPERATIONS: &[&str] = &[
    "createRun",
    "listRuns",
    "diffRun",
    "pollRunEvents",
    "cancelRun",
    "pauseRun",
    "resumeRun",
    "bulkCancelRuns",
    "forkRun",
    "registerWebhook",
    "rotateWebhookSecret",
    "transitionAgentDeployment",
    "createAnnotation",
    "resolveInterruptByRun",
    "other",
];

proptest! {
    #[test]
    fn any_body_is_translated_or_refused(at in 0..OPERATIONS.len(), body in json_value(), query in "[a-zA-Z0-9~/=-]{0,12}") {
        let given = Inner {
            query: vec![("afterSequence".to_owned(), query.clone()), ("against".to_owned(), query.clone()), ("limit".to_owned(), query)],
            body: Some(body),
        };
        let _ = request(OPERATIONS[at], &context(), given);
    }

    #[test]
    fn any_options_are_nested_and_flattened(value in json_value()) {
        let _ = flat(&context(), &value);
        if let Some(outer) = nested(TENANT, &value) {
            prop_assert_eq!(&outer["version"], 1);
            // What major 1 stored is not lost on the way, except for members about the evaluation.
            let names = value.as_object().unwrap().iter().filter(|(_, it)| !it.is_null());
            prop_assert!(names.count() >= 1);
        }
    }

    #[test]
    fn options_are_the_same_after_both_ways(options in configurable()) {
        let flat = flat(&context(), &options).unwrap();
        let expected = (options != json!({"version": 1})).then_some(options);
        prop_assert_eq!(nested(TENANT, &Value::Object(flat)), expected);
    }

    #[test]
    fn any_problem_is_translated(message in "[a-zA-Z.` ]{0,30}", details in json_value(), at in 0..OPERATIONS.len()) {
        let mut problem = Problem::new(ErrorCode::ValidationError, message.clone());
        problem.details = details.as_object().cloned().unwrap_or_default();
        let outer = refusal(OPERATIONS[at], problem);
        prop_assert_eq!(outer.message.matches('`').count(), message.matches('`').count());
    }
}
