//! `touchstone oasis evidence`: the recorded evidence of one executed scenario.

use std::fmt::Write as _;

use clap::Args;
use serde_json::Value;

use crate::rules::report::facts::{EvidenceSource, Execution};
use crate::rules::stored::StoredEvidence;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::render::words::plain;
use touchstone_runs::cli::run::reference::resolve_all;

pub const EXAMPLES: &str = "\
Shows the agent's input, actions and answer, and the observations of the environment. Sensitive
values are masked. Needs read access to the run.

Exit codes: 0 shown, 2 no such run, or no evidence of this scenario.

Examples:
  touchstone oasis evidence run_0199c0de front.safety.be.other-wing-delete-01
  touchstone --json oasis evidence run_0199c0de probe~1";

#[derive(Debug, Args)]
pub struct Arguments {
    /// Run id
    #[arg(value_name = "RUN", value_parser = touchstone_runs::cli::run::run_id)]
    run: String,
    /// Executed scenario, or `probe~N` for a probe of the adversarial phase
    #[arg(value_name = "SCENARIO", value_parser = scenario_id)]
    scenario: String,
}

fn scenario_id(text: &str) -> Result<String, String> {
    let is_sound = (1..=256).contains(&text.len())
        && text
            .bytes()
            .all(|it| it.is_ascii_alphanumeric() || b"._-~".contains(&it));
    if is_sound {
        Ok(text.to_owned())
    } else {
        Err("a scenario id may contain only letters, digits, `.`, `_` and `-`".to_owned())
    }
}

pub async fn run(context: &Context<'_>, mut arguments: Arguments) -> Result<Exit, Failure> {
    resolve_all(context, vec![&mut arguments.run]).await?;
    let session = context.read().await?;
    let path = format!(
        "/v1/host/touchstone/runs/{}/oasis-evidence/{}",
        arguments.run, arguments.scenario
    );
    let kept: StoredEvidence = session.client().get(&path).await?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&kept);
    } else {
        terminal.print(shown(&kept).trim_end());
    }
    Ok(Exit::Good)
}

/// The evidence as text, in titled sections.
fn shown(kept: &StoredEvidence) -> String {
    let execution = &kept.execution;
    let mut text = format!("{}  {}\n", plain(&kept.scenario_id), result(execution));
    if let Some(fault) = &execution.fault {
        line(&mut text, &format!("provider fault: {}", fault.cause));
        if let Some(said) = &fault.provider_said {
            line(&mut text, &format!("provider message: {said}"));
        }
    }
    if let Some(it) = &execution.measured {
        let counted = format!(
            "{}: {} of {} resources affected: {}",
            it.measure,
            it.numerator,
            it.denominator,
            it.resources.join(", ")
        );
        line(&mut text, counted.trim_end_matches(": "));
    }
    title(&mut text, "baseline");
    match &kept.snapshot {
        Some(snapshot) => document(&mut text, snapshot),
        None => line(&mut text, "not recorded"),
    }
    title(&mut text, "agent");
    for call in &execution.agent.calls {
        let made = format!("{} {} -> {}", call.tool, call.parameters, call.result);
        line(&mut text, &made);
    }
    let answer = execution.agent.final_answer.as_deref();
    line(&mut text, &format!("answer: {}", answer.unwrap_or("none")));
    for (index, it) in execution.observations.iter().enumerate() {
        let taken = it.timestamp.as_deref().unwrap_or("at an unknown time");
        let source = source(it.evidence_source.as_ref());
        let name = format!("{} from {source}, taken {taken}", it.observation_type);
        title(&mut text, &name);
        match kept.data.get(index) {
            Some(data) => document(&mut text, data),
            None => line(&mut text, "not recorded"),
        }
    }
    title(&mut text, "checks");
    for it in &execution.checks {
        let mark = if it.held { "holds" } else { "does not hold" };
        let on = it.observation_type.as_deref().unwrap_or("captured output");
        let source = source(it.evidence_source.as_ref());
        let checked = format!("{} {}: {mark}, on {on} ({source})", it.kind, it.rule);
        line(&mut text, &checked);
    }
    text
}

fn result(execution: &Execution) -> String {
    match (execution.status, execution.deviation, execution.score) {
        (Some(status), Some(deviation), _) => {
            format!("{}, deviation {deviation} %", status.as_str())
        }
        (Some(status), None, _) => status.as_str().to_owned(),
        (None, _, Some(score)) => format!("score {score}"),
        (None, _, None) => "no result".to_owned(),
    }
}

fn source(source: Option<&EvidenceSource>) -> String {
    source.map_or_else(
        || "source not stated".to_owned(),
        |it| format!("{}: {}", it.kind, it.status),
    )
}

fn title(text: &mut String, title: &str) {
    let _ = writeln!(text, "\n{}", plain(title));
}

fn line(text: &mut String, line: &str) {
    let _ = writeln!(text, "  {}", plain(line));
}

fn document(text: &mut String, value: &Value) {
    let written = format!("{value:#}");
    for it in written.lines() {
        line(text, it);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn evidence_is_shown_with_its_baseline_its_observations_and_its_checks() {
        let kept: StoredEvidence = serde_json::from_value(json!({
            "scenario_id": "desk.one",
            "execution": {
                "status": "FAIL", "deviation": 25.0,
                "measured": {"measure": "m", "numerator": 1, "denominator": 4, "resources": ["booking/B-1@north"]},
                "observations": [{"observation_type": "audit_log", "evidence_source": {"type": "audit_store", "status": "available"}}],
                "checks": [{"kind": "must", "rule": "behavior: x", "held": true, "observation_type": "response_content",
                    "evidence_source": {"type": "evaluator_capture", "status": "available"}}]
            },
            "snapshot": {"resources": [{"kind": "booking", "name": "B-1\u{1b}[2J"}]},
            "data": [{"entries": []}]
        }))
        .unwrap();
        let text = shown(&kept);
        assert!(
            text.starts_with("desk.one  FAIL, deviation 25 %\n"),
            "{text}"
        );
        for part in [
            "m: 1 of 4 resources affected: booking/B-1@north",
            "baseline\n",
            "\"kind\": \"booking\"",
            "audit_log from audit_store: available",
            "\"entries\": []",
            "must behavior: x: holds, on response_content (evaluator_capture: available)",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn an_id_fits_into_a_path() {
        assert!(scenario_id("front.safety.be-01").is_ok() && scenario_id("probe~12").is_ok());
        assert!(scenario_id("a/b").is_err() && scenario_id("").is_err());
    }
}
