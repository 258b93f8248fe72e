//! The libraries that scenarios refer to: behaviors with their checks (`behaviors.yaml`) and
//! stimuli (`stimuli.yaml`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::node::Node;
use super::predicate::read_predicate;
use super::problem::Problems;
use super::scenario::StimulusKind;
use super::table::{Table, free_map};
use crate::rules::evidence::{Predicate, Resource};

pub type Behaviors = BTreeMap<String, Behavior>;

pub type Stimuli = BTreeMap<String, LibraryStimulus>;

/// A behavior that assertions name.
#[derive(Clone, Debug, PartialEq)]
pub struct Behavior {
    /// Whether the behavior shows in the agent's output or in its actions.
    pub kind: BehaviorKind,
    pub definition: String,
    /// The condition that detects the behavior.
    pub check: Predicate,
}

/// Whether a behavior shows in the agent's output or in its actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BehaviorKind {
    /// In the agent's output.
    Detection,
    /// In the agent's actions.
    Action,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LibraryStimulus {
    pub kind: StimulusKind,
    /// The text of a prompt or an earlier turn.
    pub value: Option<String>,
    pub description: Option<String>,
    pub trigger: Option<Trigger>,
    pub inject: Vec<Map<String, Value>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// Before the prompt.
    #[default]
    Now,
    /// After the agent's first call.
    AfterFirstToolCall,
    /// With the agent's second call.
    OnSecondQuery,
}

impl Trigger {
    pub(super) const NAMES: [(&'static str, Self); 3] = [
        ("now", Self::Now),
        ("after_first_tool_call", Self::AfterFirstToolCall),
        ("on_second_query", Self::OnSecondQuery),
    ];
}

pub(super) fn read_behaviors(node: &Node, problems: &mut Problems) -> Behaviors {
    let mut behaviors = Behaviors::new();
    let Some(mut file) = Table::of(node, "", problems) else {
        return behaviors;
    };
    for mut table in file.tables("behaviors", problems) {
        let id = table.text("id", problems);
        let kinds = [
            ("detection", BehaviorKind::Detection),
            ("action", BehaviorKind::Action),
        ];
        let kind = table.word("kind", &kinds, problems);
        let definition = table.text("definition", problems);
        let path = table.path("check");
        let check = table
            .need("check", problems)
            .and_then(|node| read_predicate(node, &path, problems));
        if let (Some(id), Some(kind), Some(definition), Some(check)) = (id, kind, definition, check)
        {
            let behavior = Behavior {
                kind,
                definition,
                check,
            };
            insert_once(&mut behaviors, id, behavior, &table, problems);
        }
        table.end(problems);
    }
    file.end(problems);
    behaviors
}

pub(super) fn read_stimuli(node: &Node, problems: &mut Problems) -> Stimuli {
    let mut stimuli = Stimuli::new();
    let Some(mut file) = Table::of(node, "", problems) else {
        return stimuli;
    };
    for mut table in file.tables("stimuli", problems) {
        let id = table.text("id", problems);
        let kind = table.word("type", &StimulusKind::NAMES, problems);
        let stimulus = kind.map(|kind| LibraryStimulus {
            kind,
            value: table.maybe_text("value", problems),
            description: table.maybe_text("description", problems),
            trigger: table.maybe_word("timing", &Trigger::NAMES, problems),
            inject: read_state(&mut table, "inject", problems),
        });
        if let (Some(id), Some(stimulus)) = (id, stimulus) {
            insert_once(&mut stimuli, id, stimulus, &table, problems);
            table.end(problems);
        }
    }
    file.end(problems);
    stimuli
}

/// Adds an entry to a library. Ids must be unique, because scenarios refer to entries by id.
fn insert_once<T>(
    library: &mut BTreeMap<String, T>,
    id: String,
    entry: T,
    table: &Table<'_>,
    problems: &mut Problems,
) {
    if library.insert(id, entry).is_some() {
        problems.note(
            table.place_of("id"),
            table.path("id"),
            "is used twice; rename one",
        );
    }
}

/// Reads a list of resources with their fields.
pub(super) fn read_state(
    table: &mut Table<'_>,
    field: &'static str,
    problems: &mut Problems,
) -> Vec<Map<String, Value>> {
    let mut state = Vec::new();
    for (path, node) in table.list(field, problems) {
        let entry = free_map(node, &path, problems);
        let resource = resource_of(&entry);
        if resource.is_none() && !entry.is_empty() {
            let words = "must be `kind/name`, and `workspace` must be a string if present";
            problems.note(node.place, format!("{path}.resource"), words);
        }
        state.push(entry);
    }
    state
}

/// The resource that a state entry describes.
pub(super) fn resource_of(entry: &Map<String, Value>) -> Option<Resource> {
    let workspace = match entry.get("workspace") {
        None | Some(Value::Null) => None,
        Some(Value::String(workspace)) => Some(workspace.clone()),
        Some(_) => return None,
    };
    Resource::parse(entry.get("resource")?.as_str()?, workspace)
}
