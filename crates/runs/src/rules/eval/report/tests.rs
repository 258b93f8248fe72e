use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::rules::eval::scoring::{TASKS_IN_OUTPUTS, outputs, p95, summary};
use crate::rules::eval::statistics::{
    CollectedResults, Evidence, EvidenceRun, ListedRun, statistics,
};
use crate::rules::run::fold::TaskFacts;
use crate::rules::run::listing::RunResult;
use touchstone_kit::ids::TaskId;
use touchstone_kit::money::NanoUsd;

/// A run over tasks whose ids are not in the order of the suite.
fn record(tasks: usize) -> RunRecord {
    let tasks: Vec<String> = (0..tasks).rev().map(|n| format!("task-{n}")).collect();
    serde_json::from_value(json!({
        "runId": "run_1", "tenant": "acme", "principal": "ann", "createdAt": Timestamp::UNIX_EPOCH,
        "spec": {"workflowId": "eval:x", "work": {"eval": {
            "suiteId": "vendor.acme.evals.triage", "suiteVersion": "1.0.0", "suiteDigest": "sha256-x",
            "suiteSigned": true, "suiteTaskCount": tasks.len(), "agentId": "vendor.acme.triage.default",
            "agentVersion": "1.0.0", "packIntegrity": "sha256-y", "modelClass": "general",
            "model": {"provider": "openai", "model": "small-1"}, "modes": ["golden"], "tasks": tasks,
            "concurrency": 1, "execution": {"answerCache": true},
            "baseline": {"runId": "run_0", "aggregateScore": 0.25},
        }}},
    }))
    .unwrap()
}

fn facts() -> impl Strategy<Value = TaskFacts> {
    let score = prop_oneof![Just(0.0), Just(1.0), 0.0..=1.0];
    let reason = prop::option::weighted(0.2, Just("connect".to_owned()));
    let latency = prop::option::of(0..500_u64);
    let metric = prop::option::of(0.0..=1.0);
    let numbers = (0..3_u64, 0..3_u64, 0..9_u64);
    let yes = (any::<bool>(), any::<bool>(), prop::bool::weighted(0.9));
    (score, reason, latency, metric, numbers, yes).prop_map(
        |(score, unjudged, latency_ms, metric, (answers, cached, cost), (a, b, scored))| {
            let mut facts = TaskFacts {
                score,
                passed: score >= 0.5 && unjudged.is_none(),
                unjudged,
                latency_ms,
                answers,
                cached_answers: cached,
                scored,
                usage_estimated: a,
                ..TaskFacts::default()
            };
            facts.cost.at_least = NanoUsd(cost);
            facts
                .metrics
                .extend(metric.map(|it| ("tone".to_owned(), it)));
            if b {
                facts.forbidden_tools.push("crm:delete".to_owned());
            }
            facts
        },
    )
}

fn state(tasks: Vec<TaskFacts>) -> RunState {
    let mut state = RunState {
        status: RunStatus::Completed,
        ..RunState::default()
    };
    state.eval.scored_count = tasks.iter().filter(|task| task.scored).count();
    let tasks = tasks.into_iter().enumerate();
    state.eval.tasks = tasks
        .map(|(n, facts)| (TaskId::from(format!("task-{n}")), facts))
        .collect();
    state
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn totals_are_the_report_without_its_tasks(tasks in prop::collection::vec(facts(), 0..30)) {
        let (record, state) = (record(tasks.len()), state(tasks));
        let (spec, thresholds) = (record.spec.eval().unwrap(), Thresholds::default());
        let report = report(Kinds::NONE, &record, spec, &thresholds, &state);
        let totals = totals(Kinds::NONE, &record, spec, &thresholds, &state);
        let found = totals.task_totals.unwrap();
        let latencies: Vec<u64> =
            report.summary.tasks.iter().filter_map(|task| task.latency_ms).collect();
        let count = |outcome| report.tasks.iter().filter(|task| task.outcome == outcome).count();
        let expected = TaskTotals {
            passed: count(TaskOutcome::Passed),
            failed: count(TaskOutcome::Failed),
            unjudged: count(TaskOutcome::Unjudged),
            cost_estimated: report.tasks.iter().filter(|task| task.cost_estimated).count(),
            median_latency_ms: report.median_latency_ms(),
            p95_latency_ms: p95(latencies),
        };
        prop_assert_eq!(found, expected);
        prop_assert_eq!(totals.score(), report.score());
        let run = EvidenceRun::of_run(Kinds::NONE, &record, spec, &thresholds, &state);
        let of_report = EvidenceRun::of(&report);
        let reasons = |run: &EvidenceRun| -> Vec<Option<String>> {
            spec.tasks.iter().map(|id| run.results.reason(&id).cloned()).collect()
        };
        prop_assert_eq!(reasons(&run), reasons(&of_report));
        prop_assert_eq!(&run.results.figures, &of_report.results.figures);
        let own = statistics(&Evidence::of_run(run), None, None);
        prop_assert_eq!(own, statistics(&Evidence::of(&report), None, None));
        prop_assert_eq!(&report.totals(), &totals);
        let of_report = RunTotals { task_totals: None, ..totals };
        let empty = EvalReport {
            tasks: Vec::new(),
            summary: EvalSummary { tasks: Vec::new(), ..report.summary },
            ..report
        };
        prop_assert_eq!(json!(of_report).to_string(), json!(empty).to_string());
    }

    #[test]
    fn rows_of_any_size_are_the_lists_of_the_report(
        tasks in prop::collection::vec(facts(), 0..30),
        most in 1..8_usize,
    ) {
        let (record, state) = (record(tasks.len()), state(tasks));
        let spec = record.spec.eval().unwrap();
        let report = report(Kinds::NONE, &record, spec, &Thresholds::default(), &state);
        let annotations = TaskAnnotations::new();
        let pages = (0..).map_while(|page| {
            task_rows(spec, &state.eval, &annotations, page * most, most)
        });
        let rows: Vec<(TaskSummary, TaskReport)> = pages.flatten().collect();
        let mut collected = CollectedResults::default();
        rows.iter().for_each(|(numbers, task)| collected.add(numbers, task));
        let listed = ListedRun::collected(report.totals(), collected);
        let of_report = ListedRun::of(&report);
        prop_assert_eq!(&listed.order, &of_report.order);
        prop_assert_eq!(format!("{:?}", listed.run), format!("{:?}", of_report.run));
        let (numbers, tasks): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        prop_assert_eq!((numbers, tasks), (report.summary.tasks, report.tasks));
    }

    #[test]
    fn the_row_of_the_list_has_the_numbers_of_report_and_gate(
        tasks in prop::collection::vec(facts(), 0..30)
    ) {
        let (record, state) = (record(tasks.len()), state(tasks));
        let (spec, thresholds) = (record.spec.eval().unwrap(), Thresholds::default());
        let report = report(Kinds::NONE, &record, spec, &thresholds, &state);
        let row = RunResult::of_eval(Kinds::NONE, &record, spec, &thresholds, &state);
        let gate = statistics(&Evidence::of(&report), None, None).gate;
        prop_assert_eq!(row.score_low, gate.low.map(|low| low.max(0.0)));
        prop_assert_eq!(row.score_high, gate.high.map(|high| high.min(1.0)));
        prop_assert_eq!(row.score, report.score());
        prop_assert_eq!(row.verdict, Some(report.verdict));
        prop_assert_eq!(row.judged_count, Some(report.judged_count()));
        prop_assert_eq!(row.passed_count, Some(report.summary.passed_count));
        prop_assert_eq!(row.latency_p50_ms, report.median_latency_ms());
    }
}

#[test]
fn the_outputs_of_a_large_run_have_all_counts_and_no_tasks() {
    let scored = TaskFacts {
        score: 1.0,
        passed: true,
        scored: true,
        ..TaskFacts::default()
    };
    let outputs_of = |tasks: usize| {
        let (record, state) = (record(tasks), state(vec![scored.clone(); tasks]));
        let (spec, run) = (record.spec.eval().unwrap(), &record.run_id);
        let thresholds = Thresholds::default();
        let full = summary(Kinds::NONE, run, spec, &thresholds, &state.eval);
        (
            full,
            outputs(Kinds::NONE, run, spec, &thresholds, &state.eval),
        )
    };
    let (full, found) = outputs_of(TASKS_IN_OUTPUTS);
    assert_eq!(found, full);
    let (full, found) = outputs_of(TASKS_IN_OUTPUTS + 1);
    assert_eq!(found.task_count, TASKS_IN_OUTPUTS + 1);
    let tasks = Vec::new();
    assert_eq!(found, EvalSummary { tasks, ..full });
}
