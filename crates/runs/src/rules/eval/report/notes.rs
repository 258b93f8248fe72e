//! Notes for readers of the verdict.

use super::provenance::CachedAnswers;
use crate::rules::eval::scoring::tasks;
use crate::rules::run::record::{EvalSpec, RunRecord};
use crate::rules::run::request::selection::TASK_SELECTION;
use touchstone_openwop::suite::EvalMode;

pub fn notes(
    record: &RunRecord,
    spec: &EvalSpec,
    has_kind: bool,
    of_cache: CachedAnswers,
) -> Vec<String> {
    let mut notes = Vec::new();
    let run = &record.spec;
    let asked = run
        .configurable
        .get("evalConcurrency")
        .and_then(serde_json::Value::as_u64);
    if let Some(asked) = asked.filter(|asked| *asked > u64::from(spec.concurrency)) {
        notes.push(format!(
            "{asked} tasks in flight were requested, but {} are allowed: the minimum of \
             `limits.max_concurrency`, `limits.max_concurrency_per_tenant` and the model's \
             `max_concurrency`",
            spec.concurrency
        ));
    }
    if spec.modes_left_out.contains(&EvalMode::Regression) {
        notes.push(format!(
            "mode regression had no baseline; to compare a later run with this one, add \
             --baseline {}",
            record.run_id
        ));
    }
    if spec.modes_left_out.contains(&EvalMode::LiveShadow) {
        notes.push(
            "no live tools were called: request mode live-shadow by itself (--mode live-shadow)"
                .to_owned(),
        );
    }
    if spec.tasks.len() < spec.suite_task_count && !has_kind {
        let reason = if run.configurable.contains_key(TASK_SELECTION) {
            "only those were selected, so a gate refuses the run unless its policy allows it"
        } else {
            "the others cannot be scored in these modes"
        };
        notes.push(format!(
            "{} of the suite's {} tasks took part; {reason}",
            spec.tasks.len(),
            spec.suite_task_count
        ));
    }
    if let Some(rerun) = &spec.partial_rerun {
        notes.push(format!(
            "kept {} judged in {} and executed the others again: not evidence for a gate unless \
             its policy allows it",
            tasks(rerun.kept_tasks),
            rerun.source_run_id
        ));
    }
    let CachedAnswers {
        cached, answers, ..
    } = of_cache;
    if cached > 0 {
        notes.push(format!(
            "{cached} of {answers} model answers came from the cache: they cost nothing, their \
             latency is not the model's, and a gate refuses the run unless its policy allows replays"
        ));
    }
    if let Some(cassette) = &spec.execution.replayed_from {
        let signature = match &spec.execution.cassette_signed_by {
            Some(key) => format!("signed with key {key}"),
            None => "not signed with a key of this host".to_owned(),
        };
        notes.push(format!(
            "replayed from cassette {cassette}, {signature}: not evidence for a gate unless its \
             policy allows it"
        ));
    }
    notes
}
