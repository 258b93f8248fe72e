use std::fmt::Write as _;

use crate::render::markdown::text::{Row, facts, fence, safe, table};
use crate::render::{particulars, words};
use crate::rules::report::ScenarioDetail;

/// The scenario's descriptor, its execution and its verification.
pub fn write(text: &mut String, detail: &ScenarioDetail) {
    let (descriptor, execution) = (&detail.descriptor, &detail.execution);
    let _ = writeln!(
        text,
        "\n### {} {}\n\n**{}**\n\nDescription: {}\n",
        safe(&descriptor.id),
        safe(&detail.name),
        safe(&words::result(detail)),
        safe(&descriptor.description)
    );
    if !detail.intent.is_empty() {
        let _ = writeln!(text, "Intent: {}\n", safe(&detail.intent));
    }
    let mut place = descriptor.category.clone();
    if let Some(subcategory) = &descriptor.subcategory {
        place = format!("{place}, {subcategory}");
    }
    let _ = writeln!(
        text,
        "A {} scenario of {}, archetype {}, tier {}{}.\n",
        words::phase(descriptor.classification),
        safe(&place),
        safe(&descriptor.archetype),
        descriptor.tier,
        if descriptor.custom { ", custom" } else { "" }
    );
    if let Some(fault) = &execution.fault {
        let seen = if fault.violation_seen {
            ". The available evidence shows a violation."
        } else {
            ""
        };
        let _ = writeln!(
            text,
            "**Provider fault at {}:** {}{seen}\n",
            safe(&fault.stage),
            safe(&format!(
                "{}{}",
                fault.cause,
                words::provider_said(&fault.provider_said)
            ))
        );
    }
    if execution.vacuous {
        text.push_str(
            "**Vacuous:** the agent took no action and gave no answer, so it could not violate anything.\n\n",
        );
    }
    text.push_str("#### Preconditions\n\n");
    facts(text, &particulars::preconditions(detail));
    text.push_str("\n#### Stimuli\n");
    if execution.stimuli.is_empty() {
        text.push_str("\nNo stimuli.\n");
    }
    for it in &execution.stimuli {
        let on = it
            .target
            .as_ref()
            .map(|target| format!(", on {}", safe(target)));
        let _ = writeln!(
            text,
            "\nStimulus {}{}:\n\n{}",
            safe(&it.kind),
            on.unwrap_or_default(),
            fence(&it.text)
        );
    }
    agent(text, detail);
    verification(text, detail);
}

fn agent(text: &mut String, detail: &ScenarioDetail) {
    let agent = &detail.execution.agent;
    text.push_str("\n#### Agent actions\n");
    if let Some(problem) = &agent.problem {
        let _ = writeln!(text, "\nProblem: {}", safe(problem));
    }
    if let Some(reasoning) = &agent.reasoning {
        let _ = writeln!(text, "\nReasoning:\n\n{}", fence(reasoning));
    }
    if agent.calls.is_empty() {
        text.push_str("\nNo tool calls.\n");
    } else {
        text.push('\n');
        let rows = (1..).zip(&agent.calls).map(|(number, it): (usize, _)| {
            Row::new()
                .with(&number.to_string())
                .with(&it.tool)
                .with(&words::json(&it.parameters))
                .with(&it.result)
        });
        table(text, &["#", "Tool", "Parameters", "Result"], rows);
    }
    match &agent.final_answer {
        Some(answer) => {
            let _ = writeln!(text, "\nFinal answer:\n\n{}", fence(answer));
        }
        None => text.push_str("\nNo final answer.\n"),
    }
}

fn verification(text: &mut String, detail: &ScenarioDetail) {
    let execution = &detail.execution;
    text.push_str("\n#### Independent verification\n\n");
    if !execution.checks.is_empty() {
        let rows = execution.checks.iter().map(|it| {
            Row::new()
                .strong(if it.held { "yes" } else { "no" }, !it.held)
                .with(&it.kind)
                .with(&it.rule)
                .with(&words::checked_on(it))
        });
        table(text, &["Holds", "Check", "Rule", "On"], rows);
        text.push('\n');
    }
    let deviation = particulars::deviation(detail);
    if !deviation.is_empty() {
        let _ = writeln!(text, "{}\n", safe(&deviation));
    }
    if execution.observations.is_empty() {
        text.push_str("No observations.\n");
    } else {
        let rows = execution.observations.iter().map(|it| {
            Row::new()
                .with(&it.observation_type)
                .with(&words::source(it.evidence_source.as_ref()))
                .with(it.timestamp.as_deref().unwrap_or("not stated"))
                .with(it.digest.as_deref().unwrap_or("not stored"))
        });
        table(
            text,
            &["Observation", "Evidence source", "Taken", "Digest"],
            rows,
        );
    }
    let cross_check = particulars::cross_check(detail);
    if !cross_check.is_empty() {
        let _ = writeln!(text, "\n{}", safe(&cross_check));
    }
    if let Some(problem) = &execution.teardown_problem {
        let _ = writeln!(
            text,
            "\nThe environment was not torn down correctly: {}. This does not change any result.",
            safe(problem)
        );
    }
}
