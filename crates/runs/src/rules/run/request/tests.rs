use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::rules::eval::rubric::Rubrics;
use crate::rules::eval::scoring_document::ScoringDocument;
use crate::rules::kind::Kinds;
use crate::rules::run::record::{EvalSpec, JudgePin, ModelPin, RunSpec};
use crate::rules::run::task_ids::TaskIds;
use touchstone_agents::rules::distribution::Distribution;
use touchstone_agents::rules::worker_labels::WorkerLabels;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::{AgentId, RunId};
use touchstone_kit::money::NanoUsd;
use touchstone_openwop::suite::{AgentEvalSuite, EvalMode, ModelClass};

fn body() -> Value {
    json!({
        "mode": "eval",
        "evalSuiteRef": "vendor.acme.evals.triage@1.0.0",
        "agentId": "vendor.acme.triage.default",
    })
}

fn eval_request(body: &Value) -> Result<CreateRun, Problem> {
    match parse(Kinds::NONE, body)? {
        Request::Eval(request) => Ok(*request),
        Request::Workflow(request) => panic!("{request:?} is for a workflow"),
    }
}

fn with(pointer: &str, value: Value) -> Value {
    let mut body = body();
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    if parent == "/configurable" && body.get("configurable").is_none() {
        body["configurable"] = json!({});
    }
    body.pointer_mut(parent).unwrap()[last] = value;
    body
}

#[test]
fn a_plain_request_is_read() {
    let request = eval_request(&body()).unwrap();
    assert_eq!(request.suite.to_string(), "vendor.acme.evals.triage@1.0.0");
    assert_eq!(request.modes, None);
    assert!(request.ignore.is_empty());
}

#[test]
fn nulls_and_extras_of_the_published_client_count_as_absent() {
    let sent = json!({
        "recursionLimit": null, "model": null, "temperature": null, "maxTokens": null, "evalModes": null,
        "budget": null, "extras": {}
    });
    let request = eval_request(&with("/configurable", sent)).unwrap();
    assert_eq!(
        (request.modes, request.temperature, request.max_tokens),
        (None, None, None)
    );
    assert_eq!(
        request.options.configurable.keys().collect::<Vec<_>>(),
        ["extras"]
    );
}

#[rstest]
#[case::of_a_bound(json!({"maxCostUsd": 1.00}), Some(80.0))]
#[case::beside_the_hosts_ceiling(json!({"modelDeny": ["gpt-4-32k"]}), Some(80.0))]
#[case::as_asked(json!({"maxTokens": 200_000, "thresholdPercent": 5}), Some(5.0))]
#[case::of_nothing(json!({}), None)]
fn a_budget_warns_at_eighty_percent_unless_told(
    #[case] budget: Value,
    #[case] percent: Option<f64>,
) {
    let request = eval_request(&with("/configurable/budget", budget)).unwrap();
    assert_eq!(request.budget.threshold_percent, percent);
}

#[rstest]
#[case("/unknown", json!(1), "unknown")]
#[case("/mode", json!("benchmark"), "mode")]
#[case("/mode", json!(null), "mode")]
#[case("/workflowId", json!(7), "workflowId")]
#[case("/evalSuiteRef", json!(null), "evalSuiteRef")]
#[case("/evalSuiteRef", json!(""), "evalSuiteRef")]
#[case("/evalSuiteRef", json!(5), "evalSuiteRef")]
#[case("/evalSuiteRef", json!("vendor.acme.evals.triage"), "evalSuiteRef")]
#[case("/evalSuiteRef", json!("vendor.acme.evals.triage@^1.0.0"), "evalSuiteRef")]
#[case("/agentId", json!(null), "agentId")]
#[case("/agentId", json!(["a"]), "agentId")]
#[case("/callbackUrl", json!("hook"), "callbackUrl")]
#[case("/callbackUrl", json!(7), "callbackUrl")]
#[case("/residency", json!({"region": "eu"}), "residency")]
#[case("/configurable", json!([]), "configurable")]
#[case("/configurable/evalModes", json!("golden"), "configurable.evalModes")]
#[case("/configurable/evalModes", json!([]), "configurable.evalModes")]
#[case("/configurable/evalModes", json!([3]), "configurable.evalModes")]
#[case("/configurable/evalModes", json!(["vibes"]), "configurable.evalModes")]
#[case("/configurable/evalModes", json!(["golden", "golden"]), "configurable.evalModes")]
#[case("/configurable/recursionLimit", json!(0), "configurable.recursionLimit")]
#[case("/configurable/recursionLimit", json!("ten"), "configurable.recursionLimit")]
#[case("/configurable/escalationThreshold", json!(1.5), "configurable.escalationThreshold")]
#[case("/configurable/model", json!("gpt"), "configurable.model")]
#[case("/configurable/ai.model", json!("gpt"), "configurable.ai.model")]
#[case("/configurable/promptOverrides", json!({}), "configurable.promptOverrides")]
#[case("/configurable/mockProvider", json!({"id": "stream-text"}), "configurable.mockProvider")]
#[case("/configurable/temperature", json!(2.1), "configurable.temperature")]
#[case("/configurable/maxTokens", json!(0), "configurable.maxTokens")]
#[case("/configurable/runTimeoutMs", json!(-1), "configurable.runTimeoutMs")]
#[case("/configurable/recursionLimit", json!(0), "configurable.recursionLimit")]
#[case("/configurable/recursionLimit", json!("ten"), "configurable.recursionLimit")]
#[case("/configurable/maxLoopIterations", json!(0.5), "configurable.maxLoopIterations")]
#[case("/configurable/evalConcurrency", json!(0.5), "configurable.evalConcurrency")]
#[case("/configurable/evalMatch", json!({"ignore": [""]}), "configurable.evalMatch.ignore")]
#[case("/configurable/evalMatch", json!({"subset": true}), "configurable.evalMatch.subset")]
#[case("/configurable/budget", json!({"maxRetries": -1}), "configurable.budget.maxRetries")]
#[case("/configurable/budget", json!({"maxToolCalls": 0}), "configurable.budget.maxToolCalls")]
#[case("/configurable/budget", json!({"maxMinutes": 3}), "configurable.budget.maxMinutes")]
#[case("/configurable/budget", json!({"thresholdPercent": 101}), "configurable.budget.thresholdPercent")]
#[case("/configurable/budget", json!({"onExhaustion": "wait"}), "configurable.budget.onExhaustion")]
#[case("/configurable/budget", json!({"modelAllow": "small-*"}), "configurable.budget.modelAllow")]
#[case("/configurable/budget", json!({"modelAllow": ["a", "a"]}), "configurable.budget.modelAllow")]
#[case("/configurable/budget", json!({"modelDeny": ["[a"]}), "configurable.budget.modelDeny")]
#[case("/configurable/budget", json!({"maxCostUsd": -1}), "configurable.budget.maxCostUsd")]
#[case("/tags", json!([""]), "tags")]
#[case("/tags", json!(vec!["t"; 101]), "tags")]
#[case("/metadata", json!({"a": {"b": {"c": {"d": {}}}}}), "metadata")]
#[case("/metadata", json!({"a": "x".repeat(9000)}), "metadata")]
fn invalid_fields_are_rejected_by_name(
    #[case] pointer: &str,
    #[case] value: Value,
    #[case] field: &str,
) {
    let problem = parse(Kinds::NONE, &with(pointer, value)).unwrap_err();
    assert_eq!(
        problem.code,
        touchstone_kit::error::ErrorCode::ValidationError
    );
    assert_eq!(problem.details.get("field"), Some(&json!(field)));
}

fn suite(change: impl Fn(&mut Value)) -> AgentEvalSuite {
    let mut document = json!({
        "suiteId": "vendor.acme.evals.triage", "version": "1.0.0", "modes": ["golden", "regression", "rubric"],
        "tasks": [
            {"taskId": "a", "input": {"text": "x"}, "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "y"}}},
            {"taskId": "b", "input": {"text": "x"}, "expected": {"kind": "rubric", "rubric": [{"criterion": "c", "weight": 1}]}},
        ],
    });
    change(&mut document);
    serde_json::from_value(document).unwrap()
}

fn limits() -> HostLimits {
    HostLimits {
        max_tasks_per_suite: 2,
        max_cost_per_suite: NanoUsd::from_usd(25.0),
        is_max_cost_set: false,
        max_run_duration_ms: 60_000,
        default_concurrency: 4,
        max_concurrency: 8,
        max_node_executions: 100,
        advisory_budgets: false,
        scored_modes: scored_modes(false, false),
        distribution: None,
        worker_labels: Vec::new(),
    }
}

fn planned(body: &Value, suite: &AgentEvalSuite) -> Result<RunSpec, Problem> {
    planned_with(body, suite, &limits(), &|_| true, None)
}

fn planned_with(
    body: &Value,
    document: &AgentEvalSuite,
    limits: &HostLimits,
    accepts: &dyn Fn(&Value) -> bool,
    baseline: Option<&BaselineFacts<'_>>,
) -> Result<RunSpec, Problem> {
    let outline = SuiteOutline::of(&document.tasks, accepts);
    let agent = AgentFacts {
        agent_id: &AgentId::from("vendor.acme.triage.default"),
        version: "1.2.0",
        pack_integrity: "sha256-p",
        content: "sha256-c",
        model_class: ModelClass::Classification,
        model: Some(ModelPin {
            provider: "p".to_owned(),
            model: "m".to_owned(),
        }),
    };
    let suite = SuiteFacts {
        document,
        outline: &outline,
        digest: "sha256-s",
        scoring: None,
        scoring_document: None,
        signed: true,
        is_streamed: false,
    };
    plan(
        eval_request(body).unwrap(),
        limits,
        Some(&suite),
        Some(&agent),
        baseline,
        &[examiner()],
        &|_, _, _| Ok(None),
    )
}

fn examiner() -> ModelPin {
    ModelPin {
        provider: "p".to_owned(),
        model: "examiner-1".to_owned(),
    }
}

fn eval(spec: &RunSpec) -> &EvalSpec {
    spec.eval().unwrap()
}

fn golden() -> Value {
    with("/configurable/evalModes", json!(["golden"]))
}

#[test]
fn a_run_pins_workflow_agent_and_pack_versions() {
    let spec = planned(&golden(), &suite(|_| {})).unwrap();
    assert_eq!(spec.workflow_id, "eval:vendor.acme.evals.triage@1.0.0");
    assert_eq!(
        (
            eval(&spec).agent_version.as_str(),
            eval(&spec).pack_integrity.as_str()
        ),
        ("1.2.0", "sha256-p")
    );
    assert_eq!(
        (eval(&spec).suite_digest.as_str(), eval(&spec).suite_signed),
        ("sha256-s", true)
    );
    assert_eq!(
        (eval(&spec).concurrency, spec.run_timeout_ms),
        (4, Some(60_000))
    );
}

#[test]
fn rubric_tasks_are_left_out_of_a_golden_run_and_counted() {
    let spec = planned(&golden(), &suite(|_| {})).unwrap();
    assert_eq!(
        (&eval(&spec).tasks, eval(&spec).suite_task_count),
        (&TaskIds::from_iter(["a"]), 2)
    );
}

#[test]
fn rubric_tasks_take_part_where_there_is_a_judge_and_pin_it() {
    let judging = HostLimits {
        scored_modes: scored_modes(true, false),
        ..limits()
    };
    let document = suite(|_| {});
    let planned = |modes: Value| {
        let body = with("/configurable/evalModes", modes);
        planned_with(&body, &document, &judging, &|_| true, None).unwrap()
    };
    let judged = planned(json!(["rubric"]));
    assert_eq!(eval(&judged).tasks.len(), 2);
    let judge = eval(&judged).judge.as_ref().unwrap();
    assert_eq!(judge.model, examiner());
    assert_eq!(
        Some(judge),
        JudgePin::of(&examiner(), &Rubrics::of(&document.tasks), None).as_ref()
    );
    assert_eq!(eval(&planned(json!(["golden"]))).judge, None);
}

fn asking() -> ScoringDocument {
    let document = json!({"scoringVersion": 1, "suiteId": "vendor.acme.evals.triage", "tasks": {
        "a": {"assertions": [{"type": "closed-question", "question": "Is it kind?"}]}}});
    serde_json::from_value(document).unwrap()
}

fn planned_by(judges: &[ModelPin]) -> Result<RunSpec, Problem> {
    let (document, scoring) = (suite(|_| {}), asking());
    let outline = SuiteOutline::of(&document.tasks, |_| true);
    let agent = AgentFacts {
        agent_id: &AgentId::from("vendor.acme.triage.default"),
        version: "1.2.0",
        pack_integrity: "sha256-p",
        content: "sha256-c",
        model_class: ModelClass::Classification,
        model: Some(examiner()),
    };
    let suite = SuiteFacts {
        document: &document,
        outline: &outline,
        digest: "sha256-s",
        scoring: Some("sha256-d"),
        scoring_document: Some(&scoring),
        signed: true,
        is_streamed: false,
    };
    let request = eval_request(&golden()).unwrap();
    plan(
        request,
        &limits(),
        Some(&suite),
        Some(&agent),
        None,
        judges,
        &|_, _, _| Ok(None),
    )
}

#[test]
fn a_judged_assertion_pins_the_judge_and_is_refused_without_one() {
    let judged = planned_by(&[examiner()]).unwrap();
    let expected = JudgePin::of(
        &examiner(),
        &Rubrics::of(&suite(|_| {}).tasks),
        Some(&asking()),
    );
    assert_eq!(eval(&judged).judge, expected);
    assert_eq!(eval(&judged).judges, []);
    let refused = planned_by(&[]).unwrap_err();
    assert_eq!(refused.details.get("reason"), Some(&json!("judge_missing")));
}

#[test]
fn several_judges_are_pinned_together_and_each() {
    let other = ModelPin {
        provider: "p".to_owned(),
        model: "other".to_owned(),
    };
    let judged = planned_by(&[examiner(), other.clone()]).unwrap();
    let of = |model: &ModelPin| {
        JudgePin::of(model, &Rubrics::of(&suite(|_| {}).tasks), Some(&asking())).unwrap()
    };
    let pinned = eval(&judged);
    let members: Vec<&JudgePin> = pinned.judges.iter().map(|it| &it.judge).collect();
    assert_eq!(members, [&of(&examiner()), &of(&other)]);
    let together = pinned.judge.as_ref().unwrap();
    assert_eq!(together.model, examiner());
    assert!(members.iter().all(|it| it.identity != together.identity));
}

#[test]
fn all_declared_modes_run_when_none_is_named_and_an_unscored_one_is_refused() {
    let problem = planned(&body(), &suite(|_| {})).unwrap_err();
    assert_eq!(
        problem.details.get("field"),
        Some(&json!("configurable.evalModes"))
    );
    let spec = planned(&body(), &suite(|s| s["modes"] = json!(["golden"]))).unwrap();
    assert_eq!(eval(&spec).modes, [EvalMode::Golden]);
}

#[rstest]
#[case::undeclared(with("/configurable/evalModes", json!(["adversarial"])), "configurable.evalModes")]
#[case::unscored(with("/configurable/evalModes", json!(["rubric"])), "configurable.evalModes")]
#[case::no_baseline(with("/configurable/evalModes", json!(["regression"])), "configurable.baselineRunId")]
fn modes_are_refused_by_name(#[case] body: Value, #[case] field: &str) {
    let problem = planned(&body, &suite(|_| {})).unwrap_err();
    assert_eq!(problem.details.get("field"), Some(&json!(field)));
}

#[test]
fn a_suite_for_another_agent_needs_an_override() {
    let foreign = suite(|s| s["targetAgentId"] = json!("vendor.acme.other.default"));
    assert_eq!(
        planned(&golden(), &foreign)
            .unwrap_err()
            .details
            .get("field"),
        Some(&json!("agentId"))
    );
    let mut body = golden();
    body["configurable"]["evalTargetOverride"] = json!(true);
    assert!(planned(&body, &foreign).is_ok());
}

#[test]
fn a_model_class_the_suite_does_not_allow_is_refused() {
    let coding = suite(|s| s["allowedModels"] = json!(["coding"]));
    assert_eq!(
        planned(&golden(), &coding)
            .unwrap_err()
            .details
            .get("field"),
        Some(&json!("agentId"))
    );
}

fn with_workers(default: Option<Distribution>) -> HostLimits {
    HostLimits {
        distribution: default,
        scored_modes: scored_modes(false, true),
        ..limits()
    }
}

#[rstest]
#[case::no_workers(None, Some("local"), false)]
#[case::by_default(Some(Distribution::Cluster), None, true)]
#[case::not_by_default(Some(Distribution::Local), None, false)]
#[case::requested(Some(Distribution::Local), Some("cluster"), true)]
#[case::not_wanted(Some(Distribution::Cluster), Some("local"), false)]
fn a_run_is_executed_where_it_says_or_else_where_the_host_says(
    #[case] default: Option<Distribution>,
    #[case] requested: Option<&str>,
    #[case] distributed: bool,
) {
    let mut body = golden();
    body["configurable"]["evalDistribution"] = json!(requested);
    let limits = with_workers(default);
    let spec = planned_with(&body, &suite(|_| {}), &limits, &|_| true, None).unwrap();
    assert_eq!(eval(&spec).execution.distributed, distributed);
}

fn labels(text: &str) -> WorkerLabels {
    WorkerLabels::parse(text).unwrap()
}

fn with_sets(sets: &[&str], default: Distribution) -> HostLimits {
    HostLimits {
        worker_labels: sets.iter().map(|it| labels(it)).collect(),
        ..with_workers(Some(default))
    }
}

#[test]
fn a_run_with_labels_is_executed_by_workers_that_have_them() {
    let mut body = golden();
    body["configurable"]["evalWorkerLabels"] = json!(["region=eu", "gpu", "gpu"]);
    let limits = with_sets(&["gpu", "gpu,region=eu"], Distribution::Local);
    let spec = planned_with(&body, &suite(|_| {}), &limits, &|_| true, None).unwrap();
    let execution = &eval(&spec).execution;
    assert_eq!(execution.worker_labels, labels("gpu,region=eu"));
    assert!(execution.is_distributed());
    // A host of an earlier version reads neither member and executes the tasks itself.
    assert_eq!(
        serde_json::to_value(execution).unwrap(),
        json!({"workerLabels": ["gpu", "region=eu"]})
    );
}

#[rstest]
#[case::not_listed(json!(["fast"]), None, "unknown_label")]
#[case::more_than_a_set(json!(["gpu", "region=eu"]), None, "unknown_label")]
#[case::at_the_host(json!(["gpu"]), Some("local"), "not_distributable")]
fn labels_that_no_worker_can_serve_are_refused(
    #[case] requested: Value,
    #[case] distribution: Option<&str>,
    #[case] expected: &str,
) {
    let mut body = golden();
    body["configurable"]["evalWorkerLabels"] = requested;
    body["configurable"]["evalDistribution"] = json!(distribution);
    let limits = with_sets(&["gpu", "region=eu,region=us"], Distribution::Cluster);
    let reason = |limits: &HostLimits, suite: &AgentEvalSuite, body: &Value| {
        let problem = planned_with(body, suite, limits, &|_| true, None).unwrap_err();
        let field = json!("configurable.evalWorkerLabels");
        assert_eq!(problem.details.get("field"), Some(&field));
        problem.details.get("reason").cloned()
    };
    let plain = suite(|_| {});
    assert_eq!(reason(&limits, &plain, &body), Some(json!(expected)));
    body["configurable"]["evalDistribution"] = Value::Null;
    body["configurable"]["evalWorkerLabels"] = json!(["gpu"]);
    let without = with_workers(None);
    assert_eq!(reason(&without, &plain, &body), Some(json!("no_cluster")));
    let live = suite(|s| s["modes"] = json!(["live-shadow"]));
    body["configurable"]["evalModes"] = json!(["live-shadow"]);
    let expected = Some(json!("not_distributable"));
    assert_eq!(reason(&limits, &live, &body), expected);
}

#[test]
fn a_run_requires_one_of_the_sets_that_the_operator_lists() {
    let mut body = golden();
    body["configurable"]["evalWorkerLabels"] = json!(["gpu", "region=eu"]);
    let message = |sets: &[&str]| {
        let limits = with_sets(sets, Distribution::Cluster);
        let planned = planned_with(&body, &suite(|_| {}), &limits, &|_| true, None);
        planned.unwrap_err().message
    };
    let listed = message(&["region=eu", "region=eu,gpu,fast"]);
    assert!(
        listed.contains("lists `region=eu`; `fast, gpu, region=eu`"),
        "{listed}"
    );
    let none = message(&[]);
    assert!(none.contains("lists none; got `gpu, region=eu`"), "{none}");
}

#[test]
fn the_labels_of_a_model_entry_are_required_too() {
    let limits = with_sets(&["gpu"], Distribution::Cluster);
    let pinned = |requested: Value, of_model: &str, distribution, is_callable| {
        let mut body = golden();
        body["configurable"]["evalWorkerLabels"] = requested;
        body["configurable"]["evalDistribution"] = distribution;
        let spec = planned_with(&body, &suite(|_| {}), &limits, &|_| true, None).unwrap();
        let mut eval = eval(&spec).clone();
        let reason = |problem: Problem| problem.details.get("reason").cloned();
        pin_labels(&mut eval, &labels(of_model), is_callable).map_err(reason)?;
        Ok(eval.execution)
    };
    let both = pinned(json!(["gpu"]), "region=eu", Value::Null, true).unwrap();
    assert_eq!(both.worker_labels, labels("gpu,region=eu"));
    let of_model = pinned(Value::Null, "region=eu", Value::Null, true).unwrap();
    assert_eq!(of_model.worker_labels, labels("region=eu"));
    // A host of an earlier version, which may not know the labels, gives the tasks to no worker.
    assert!(of_model.is_distributed() && !of_model.distributed);
    let local = pinned(Value::Null, "region=eu", json!("local"), true).unwrap();
    assert!(local.worker_labels.is_empty());
    let many = pinned(json!(["gpu"]), "1,2,3,4,5,6,7,8", Value::Null, true);
    assert_eq!(many, Err(Some(json!("too_many_labels"))));
    let bound = pinned(Value::Null, "region=eu", Value::Null, false);
    assert_eq!(bound, Err(Some(json!("not_distributable"))));
}

#[test]
fn what_only_workers_do_is_refused_for_agents_that_only_the_host_reaches() {
    for (name, value) in [
        ("evalWorkerLabels", json!(["gpu"])),
        ("evalWorkerCommand", json!("triage")),
    ] {
        let mut body = golden();
        body["configurable"][name] = value;
        let problem = check_at_host(&eval_request(&body).unwrap()).unwrap_err();
        let field = json!(format!("configurable.{name}"));
        assert_eq!(problem.details.get("field"), Some(&field));
    }
    assert!(check_at_host(&eval_request(&golden()).unwrap()).is_ok());
}

#[test]
fn a_command_of_workers_makes_a_run_distributed() {
    let mut body = golden();
    body["configurable"]["evalWorkerCommand"] = json!("triage");
    let limits = with_workers(Some(Distribution::Local));
    let plain = suite(|_| {});
    let spec = planned_with(&body, &plain, &limits, &|_| true, None).unwrap();
    let execution = &eval(&spec).execution;
    assert_eq!(execution.worker_command.as_deref(), Some("triage"));
    assert!(execution.is_distributed() && !execution.distributed);
    let problem = planned(&body, &plain).unwrap_err();
    assert_eq!(problem.details.get("reason"), Some(&json!("no_cluster")));
    for name in ["", "rm -rf", "a/b", &"x".repeat(49)] {
        body["configurable"]["evalWorkerCommand"] = json!(name);
        let problem = parse(Kinds::NONE, &body).unwrap_err();
        let field = json!("configurable.evalWorkerCommand");
        assert_eq!(problem.details.get("field"), Some(&field), "{name}");
    }
}

#[rstest]
#[case(json!("gpu"))]
#[case(json!(["a b"]))]
#[case(json!([1]))]
#[case(json!(["1", "2", "3", "4", "5", "6", "7", "8", "9"]))]
fn labels_of_another_form_are_refused(#[case] requested: Value) {
    let mut body = golden();
    body["configurable"]["evalWorkerLabels"] = requested;
    let problem = parse(Kinds::NONE, &body).unwrap_err();
    let field = json!("configurable.evalWorkerLabels");
    assert_eq!(problem.details.get("field"), Some(&field));
}

#[test]
fn workers_are_refused_where_there_are_none_and_for_live_tools() {
    let mut body = golden();
    body["configurable"]["evalDistribution"] = json!("cluster");
    let problem = planned(&body, &suite(|_| {})).unwrap_err();
    assert_eq!(problem.details.get("reason"), Some(&json!("no_cluster")));
    let live = suite(|s| s["modes"] = json!(["live-shadow"]));
    body["configurable"]["evalModes"] = json!(["live-shadow"]);
    let limits = with_workers(Some(Distribution::Cluster));
    let problem = planned_with(&body, &live, &limits, &|_| true, None).unwrap_err();
    let reason = problem.details.get("reason");
    assert_eq!(reason, Some(&json!("not_distributable")), "{problem:?}");
    body["configurable"]["evalDistribution"] = Value::Null;
    let spec = planned_with(&body, &live, &limits, &|_| true, None).unwrap();
    assert!(!eval(&spec).execution.distributed);
    body["configurable"]["evalDistribution"] = json!("elsewhere");
    let field = json!("configurable.evalDistribution");
    let problem = parse(Kinds::NONE, &body).unwrap_err();
    assert_eq!(problem.details.get("field"), Some(&field));
}

#[test]
fn too_many_tasks_are_refused() {
    let small = HostLimits {
        max_tasks_per_suite: 1,
        ..limits()
    };
    let problem = planned_with(&golden(), &suite(|_| {}), &small, &|_| true, None).unwrap_err();
    assert_eq!(problem.details.get("field"), Some(&json!("evalSuiteRef")));
}

#[test]
fn a_task_input_that_violates_the_schema_is_rejected() {
    let problem = planned_with(&golden(), &suite(|_| {}), &limits(), &|_| false, None).unwrap_err();
    assert!(problem.message.contains("`a`"));
}

#[test]
fn a_baseline_must_be_a_finished_run_of_the_same_suite() {
    let mut body = with("/configurable/evalModes", json!(["regression"]));
    body["configurable"]["baselineRunId"] = json!("run_0");
    let run_id = RunId::from("run_0");
    let good = BaselineFacts {
        run_id: &run_id,
        conclusive: true,
        ignore: &[],
        tasks: &TaskIds::from_iter(["a"]),
        judge: None,
        modes: &[EvalMode::Golden],
        safety_judge: None,
        keeps_answers: true,
        suite_id: "vendor.acme.evals.triage",
        suite_version: "1.0.0",
        scoring_digest: None,
        aggregate_score: 0.5,
    };
    let plan = |facts: &BaselineFacts<'_>| {
        planned_with(&body, &suite(|_| {}), &limits(), &|_| true, Some(facts))
    };
    assert_eq!(
        eval(&plan(&good).unwrap())
            .baseline
            .as_ref()
            .unwrap()
            .aggregate_score,
        0.5
    );
    for (unlike, reason) in [
        (
            BaselineFacts {
                conclusive: false,
                ..good
            },
            "it did not complete with every task judged",
        ),
        (
            BaselineFacts {
                suite_version: "1.0.1",
                ..good
            },
            "it evaluated vendor.acme.evals.triage@1.0.1 instead of vendor.acme.evals.triage@1.0.0",
        ),
        (
            BaselineFacts {
                tasks: &TaskIds::default(),
                ..good
            },
            "it evaluated other tasks (0 instead of 1)",
        ),
        (
            BaselineFacts {
                scoring_digest: Some("sha256-z"),
                ..good
            },
            "its scoring document differs",
        ),
        (
            BaselineFacts {
                modes: &[EvalMode::LiveShadow],
                ..good
            },
            "it used live tools",
        ),
    ] {
        let refused = plan(&unlike).unwrap_err();
        assert!(refused.message.contains(reason), "{}", refused.message);
    }
}

#[test]
fn live_mode_requires_an_explicit_request_and_excludes_other_modes() {
    let live = suite(|s| s["modes"] = json!(["golden", "live-shadow"]));
    let planned = |modes: Value, judge: bool, tools: bool| {
        let limits = HostLimits {
            scored_modes: scored_modes(judge, tools),
            ..limits()
        };
        let body = with("/configurable/evalModes", modes);
        planned_with(&body, &live, &limits, &|_| true, None)
    };
    let spec = planned(json!(["live-shadow"]), true, true).unwrap();
    assert!(eval(&spec).is_live() && eval(&spec).judge.is_some());
    assert_eq!(eval(&spec).tasks.len(), 2);
    let mixed = planned(json!(["golden", "live-shadow"]), true, true).unwrap_err();
    assert!(
        mixed.message.contains("cannot be mixed"),
        "{}",
        mixed.message
    );
    // Live tools are called only on explicit request.
    let limits = HostLimits {
        scored_modes: scored_modes(true, true),
        ..limits()
    };
    let unasked = planned_with(&body(), &live, &limits, &|_| true, None).unwrap();
    assert_eq!(eval(&unasked).modes, [EvalMode::Golden]);
    assert_eq!(eval(&unasked).modes_left_out, [EvalMode::LiveShadow]);
    let without = planned(json!(["live-shadow"]), true, false).unwrap_err();
    assert!(
        without.message.contains("[[tools.mcp]]"),
        "{}",
        without.message
    );
}

#[rstest]
#[case::declared(json!(["golden", "regression"]))]
#[case::not_declared(json!(["golden"]))]
fn a_named_baseline_adds_mode_regression(#[case] declared: Value) {
    let document = suite(|s| s["modes"] = declared.clone());
    let mut body = golden();
    body["configurable"]["baselineRunId"] = json!("run_0");
    let run_id = RunId::from("run_0");
    let facts = BaselineFacts {
        run_id: &run_id,
        conclusive: true,
        ignore: &[],
        tasks: &TaskIds::from_iter(["a"]),
        judge: None,
        modes: &[EvalMode::Golden],
        safety_judge: None,
        keeps_answers: true,
        suite_id: "vendor.acme.evals.triage",
        suite_version: "1.0.0",
        scoring_digest: None,
        aggregate_score: 0.5,
    };
    let spec = planned_with(&body, &document, &limits(), &|_| true, Some(&facts)).unwrap();
    assert_eq!(eval(&spec).modes, [EvalMode::Golden, EvalMode::Regression]);
    assert_eq!(eval(&spec).baseline.as_ref().unwrap().run_id, run_id);
}

#[test]
fn regression_mode_is_reported_as_omitted_without_a_baseline() {
    let mixed = suite(|s| s["modes"] = json!(["golden", "regression"]));
    let spec = planned(&body(), &mixed).unwrap();
    assert_eq!(eval(&spec).modes, [EvalMode::Golden]);
    assert_eq!(eval(&spec).modes_left_out, [EvalMode::Regression]);
    let named = planned(&with("/configurable/baselineRunId", json!("run_0")), &mixed).unwrap_err();
    assert_eq!(
        named.details.get("field"),
        Some(&json!("configurable.baselineRunId"))
    );
    let mut golden = golden();
    golden["configurable"]["baselineRunId"] = json!("run_0");
    assert!(
        planned(&golden, &mixed).is_err(),
        "a baseline nothing is compared with"
    );
}

#[test]
fn an_unknown_agent_and_an_unknown_suite_look_the_same() {
    let document = suite(|_| {});
    let outline = SuiteOutline::of(&document.tasks, |_| true);
    let suite = SuiteFacts {
        document: &document,
        outline: &outline,
        digest: "d",
        scoring: None,
        scoring_document: None,
        signed: false,
        is_streamed: false,
    };
    let no_agent = plan(
        eval_request(&golden()).unwrap(),
        &limits(),
        Some(&suite),
        None,
        None,
        &[],
        &|_, _, _| Ok(None),
    )
    .unwrap_err();
    let no_suite = plan(
        eval_request(&golden()).unwrap(),
        &limits(),
        None,
        None,
        None,
        &[],
        &|_, _, _| Ok(None),
    )
    .unwrap_err();
    assert_eq!(no_agent.envelope(), no_suite.envelope());
}
