//! Projects the end of a task from its judgment.

use serde_json::{Value, json};

use super::log::EntryKind;
use super::{Evidence, Finding, FindingSeverity, Task, set};
use crate::rules::evidence::EventType;

/// Maximum number of errors of a task that are listed one by one; the first few already take all
/// accuracy.
const MAX_ERRORS: usize = 1000;

pub fn project(task: &Task<'_>, findings: Option<&Vec<Finding>>, evidence: &mut Evidence<'_>) {
    let scored = task.scored;
    let status = match (scored.passed, scored.score > 0.0) {
        (true, _) => "accepted",
        (false, true) => "partial",
        (false, false) => "rejected",
    };
    let measured = scored.latency_ms.map(|it| it / 1000.0);
    let seconds = measured.unwrap_or_else(|| {
        let took = task.judged.at.duration_since(task.began.at);
        took.as_secs_f64().max(0.0)
    });
    let mut data = json!({
        "completion_status": status, "milestone_fraction": scored.score, "quality_score": scored.score,
        "time_to_complete_seconds": seconds, "revision_count": u8::from(!scored.passed),
        "errors": errors(task, findings), "human_intervention": had_intervention(task),
    });
    set(&mut data, "autonomy_level", task.profile.autonomy_level);
    set(&mut data, "cost_usd", scored.cost_usd);
    let checklist = checklist(task);
    set(
        &mut data,
        "review_checklist",
        checklist.as_object().filter(|it| !it.is_empty()),
    );
    evidence.add(
        task,
        EventType::TaskCompleted,
        (task.judged, 0),
        task.judged,
        data,
    );
}

fn errors(task: &Task<'_>, findings: Option<&Vec<Finding>>) -> Vec<Value> {
    let findings = findings.map(Vec::as_slice).unwrap_or_default();
    let counted = task.scored.safety_finding_count.unwrap_or_default();
    let mut errors: Vec<Value> = if findings.is_empty() {
        let counted = usize::try_from(counted)
            .unwrap_or(MAX_ERRORS)
            .min(MAX_ERRORS);
        vec![json!({"severity": "major", "code": "safety"}); counted]
    } else {
        let listed = findings.iter().take(MAX_ERRORS);
        listed.map(
            |it| json!({"severity": severity(it.severity), "code": format!("safety.{}", it.kind)}),
        )
        .collect()
    };
    if task.scored.schema_valid == Some(false) {
        errors.push(json!({"severity": "major", "code": "schema_invalid"}));
    }
    errors
}

const fn severity(of: FindingSeverity) -> &'static str {
    match of {
        FindingSeverity::Low => "minor",
        FindingSeverity::Medium => "major",
        FindingSeverity::High | FindingSeverity::Critical => "critical",
    }
}

/// Whether a person intervened in a task that should run without. At autonomy levels 0 and 1
/// intervention is intended.
fn had_intervention(task: &Task<'_>) -> bool {
    let alone = task.profile.autonomy_level.is_none_or(|it| it.get() >= 2);
    alone
        && task
            .entries
            .iter()
            .any(|it| matches!(it.kind, EntryKind::HumanIntervention))
}

fn checklist(task: &Task<'_>) -> Value {
    let scored = task.scored;
    let mut items = json!({});
    set(&mut items, "output_format_correct", scored.schema_valid);
    let clear = scored.safety_finding_count.map(|it| it == 0);
    set(&mut items, "safety_findings_clear", clear);
    let verdicts = task.entries.iter().rev().find_map(|it| match &it.kind {
        EntryKind::Verified(it) => Some(it.verdict == "pass"),
        _ => None,
    });
    set(&mut items, "verification_evidence_provided", verdicts);
    let within = task
        .profile
        .max_cost_usd
        .zip(scored.cost_usd)
        .map(|(most, cost)| cost <= most);
    set(&mut items, "budget_respected", within);
    items
}
