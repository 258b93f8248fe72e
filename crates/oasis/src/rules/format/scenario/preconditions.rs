//! Reads preconditions and stimuli.

use super::super::library::{Trigger, read_state};
use super::super::node::SourcePosition;
use super::super::problem::Problems;
use super::super::table::{Table, free_map};
use super::context::Context;
use super::{AgentSetup, Environment, Preconditions, Stimulus, StimulusKind};

/// The modes that an agent can be set to (Core 1).
const MODES: [&str; 3] = ["read-only", "supervised", "autonomous"];

pub(super) fn read(scenario: &mut Table<'_>, problems: &mut Problems) -> Preconditions {
    let Some(mut table) = scenario.table("preconditions", problems) else {
        return Preconditions::default();
    };
    let environment = table.table("environment", problems).map(|mut table| {
        let kind = table.text("type", problems).unwrap_or_default();
        let state = read_state(&mut table, "state", problems);
        table.end(problems);
        Environment { kind, state }
    });
    let agent = table.table("agent", problems).map(|mut table| {
        let mode = table.text("mode", problems).unwrap_or_default();
        if !mode.is_empty() && !MODES.contains(&mode.as_str()) {
            let words = format!("must be one of {}", MODES.join(", "));
            problems.note(table.place_of("mode"), table.path("mode"), words);
        }
        let tools = table.texts("tools", problems);
        let path = table.path("scope");
        let scope = table.get("scope");
        let scope = scope.map(|node| free_map(node, &path, problems));
        table.end(problems);
        AgentSetup {
            mode,
            tools,
            scope: scope.unwrap_or_default(),
        }
    });
    table.end(problems);
    Preconditions {
        environment: environment.unwrap_or_default(),
        agent: agent.unwrap_or_default(),
    }
}

pub(super) fn read_stimuli(
    scenario: &mut Table<'_>,
    context: Option<&Context<'_>>,
    problems: &mut Problems,
) -> Vec<Stimulus> {
    let mut stimuli = Vec::new();
    for table in scenario.tables("stimuli", problems) {
        stimuli.extend(read_stimulus(table, context, problems));
    }
    let prompts = stimuli
        .iter()
        .filter(|stimulus| stimulus.kind == StimulusKind::OperatorPrompt)
        .count();
    if prompts != 1 {
        let words =
            format!("must have exactly one stimulus of type `operator_prompt`, got {prompts}");
        problems.note(scenario.place_of("stimuli"), "stimuli", words);
    }
    stimuli
}

fn read_stimulus(
    mut table: Table<'_>,
    context: Option<&Context<'_>>,
    problems: &mut Problems,
) -> Option<Stimulus> {
    let kind = table.word("type", &StimulusKind::NAMES, problems);
    let library_ref = table.maybe_text("library_ref", problems);
    let timing = table.maybe_word("timing", &Trigger::NAMES, problems);
    let mut stimulus = Stimulus {
        kind: kind?,
        library_ref,
        value: table.maybe_text("value", problems),
        target: table.maybe_text("target", problems),
        description: table.maybe_text("description", problems),
        trigger: timing.unwrap_or_default(),
        inject: match context {
            Some(context) if context.of_probes => read_state(&mut table, "inject", problems),
            _ => Vec::new(),
        },
    };
    let (place, path) = (table.place_of("library_ref"), table.path("library_ref"));
    fill(&mut stimulus, timing, context, (place, path), problems);
    let missing = match stimulus.kind {
        StimulusKind::OperatorPrompt | StimulusKind::ConversationContext => stimulus
            .value
            .is_none()
            .then_some("has no `value`; add the text of the message"),
        StimulusKind::TemporalCondition if stimulus.inject.is_empty() => {
            Some("injects nothing; refer to a library entry with `inject`")
        }
        StimulusKind::TemporalCondition if stimulus.trigger == Trigger::Now => {
            Some("has no `timing`; state when the event happens")
        }
        _ => None,
    };
    if let Some(words) = missing {
        problems.note(table.place(), table.path("type"), words);
    }
    table.end(problems);
    Some(stimulus)
}

/// Fills in the fields of the library entry; the scenario's own fields take precedence.
fn fill(
    stimulus: &mut Stimulus,
    timing: Option<Trigger>,
    context: Option<&Context<'_>>,
    (place, path): (SourcePosition, String),
    problems: &mut Problems,
) {
    let (Some(id), Some(context)) = (&stimulus.library_ref, context) else {
        return;
    };
    let Some(entry) = context.stimuli.get(id) else {
        let words = format!("`{id}` is not a stimulus of the library; add it to stimuli.yaml");
        return problems.note(place, path, words);
    };
    if entry.kind != stimulus.kind {
        problems.note(
            place,
            path,
            format!("`{id}` has a different type in the library"),
        );
    }
    stimulus.value = stimulus.value.take().or_else(|| entry.value.clone());
    stimulus.description = stimulus
        .description
        .take()
        .or_else(|| entry.description.clone());
    stimulus.trigger = timing.or(entry.trigger).unwrap_or_default();
    if stimulus.inject.is_empty() {
        stimulus.inject.clone_from(&entry.inject);
    }
}
