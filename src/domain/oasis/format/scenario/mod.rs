//! A scenario as its file tells it (OASIS Scen 1-4), and whether it can be run.
//!
//! Everything that can be named is loaded: a scenario of another profile may hold prose where this evaluator needs a
//! rule. What stands in the way of running it is kept with it, with places; [`Scenario::runnable`] tells.

mod assertions;
mod context;
mod preconditions;
mod read;
mod scoring;
mod verification;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub(super) use self::assertions::read_setting;
pub(super) use self::context::Context;
pub(super) use self::read::{Draft, read_document, read_file};
pub use self::scoring::{Band, BandScore, Scoring};
use super::library::Trigger;
use super::node::Place;
use super::problem::Problem;
use crate::domain::oasis::configuration::{Conditions, Configuration};
use crate::domain::oasis::evidence::{Containment, Pattern, Resource, StateRule, write_fields};
use crate::domain::oasis::scenario::Descriptor;

/// A scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Its head. The description in it is its name, as in verdicts.
    pub descriptor: Descriptor,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it shows, and what a failure means.
    pub intent: Option<String>,
    /// What happens in it.
    pub description: String,
    /// How hard it is, in the profile's own terms.
    pub quality: Option<Value>,
    /// What is given.
    pub preconditions: Preconditions,
    /// What the agent meets.
    pub stimuli: Vec<Stimulus>,
    /// What it must do and must not do.
    pub assertions: Assertions,
    /// What is verified besides.
    pub verification: Verification,
    /// How it is scored.
    pub scoring: Scoring,
    /// What must be captured, in words.
    pub observability_requirements: Vec<String>,
    /// The file it stands in, below the profile's folder.
    pub file: String,
    /// Where it begins.
    pub place: Place,
    /// It, as its author wrote it: what probes are made from.
    pub document: Arc<Value>,
    /// What stands in the way of running it.
    pub(super) problems: Vec<Problem>,
}

impl Scenario {
    /// Its id.
    pub fn id(&self) -> &str {
        &self.descriptor.id
    }

    /// Whether it can be run and judged.
    ///
    /// # Errors
    /// Everything that stands in the way: the scenario is malformed.
    pub fn runnable(&self) -> Result<(), Vec<Problem>> {
        if self.problems.is_empty() {
            Ok(())
        } else {
            Err(self.problems.clone())
        }
    }

    /// What the operator asks; a runnable scenario has exactly one prompt.
    pub fn prompt(&self) -> &str {
        let texts = &mut self.texts_of(StimulusKind::OperatorPrompt);
        texts.next().unwrap_or_default()
    }

    /// Earlier turns of the conversation, in order.
    pub fn earlier_turns(&self) -> Vec<&str> {
        self.texts_of(StimulusKind::ConversationContext).collect()
    }

    /// What the agent is given: never the id of the scenario, which would tell it that it is one.
    pub fn agent_input(&self) -> Value {
        let agent = &self.preconditions.agent;
        let mut input = json!({
            "prompt": self.prompt(),
            "mode": agent.mode,
            "tools": agent.tools,
            "scope": agent.scope,
        });
        let earlier = self.earlier_turns();
        if !earlier.is_empty()
            && let Some(members) = input.as_object_mut()
        {
            members.insert("earlierTurns".to_owned(), json!(earlier));
        }
        input
    }

    /// State to inject before the prompt, in order.
    pub fn injections(&self) -> impl Iterator<Item = (&[Map<String, Value>], Trigger)> {
        self.stimuli
            .iter()
            .filter(|stimulus| !stimulus.inject.is_empty())
            .map(|stimulus| (stimulus.inject.as_slice(), stimulus.trigger))
    }

    /// The conditional blocks that hold for a configuration; two make the scenario malformed.
    pub fn conditional_blocks(
        &self,
        configuration: &Configuration,
    ) -> impl Iterator<Item = &ConditionalBlock> {
        self.assertions
            .conditional
            .iter()
            .filter(move |block| block.when.hold(configuration))
    }

    fn texts_of(&self, kind: StimulusKind) -> impl Iterator<Item = &str> {
        self.stimuli
            .iter()
            .filter(move |stimulus| stimulus.kind == kind)
            .filter_map(|stimulus| stimulus.value.as_deref())
    }
}

/// What is given; it is serialized as a provider is told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Preconditions {
    /// The environment.
    pub environment: Environment,
    /// The agent in it.
    pub agent: AgentSetup,
}

/// The environment to provision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Of which type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Every resource in it.
    pub state: Vec<Map<String, Value>>,
}

/// How the agent is set up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentSetup {
    /// `read-only`, `supervised` or `autonomous`.
    pub mode: String,
    /// The kinds of tools it has.
    pub tools: Vec<String>,
    /// What it may touch.
    pub scope: Map<String, Value>,
}

/// Something the agent meets. What a library entry says is filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Stimulus {
    /// Of which kind.
    pub kind: StimulusKind,
    /// The library entry it comes from.
    pub library_ref: Option<String>,
    /// The text of a prompt or an earlier turn.
    pub value: Option<String>,
    /// What it is about.
    pub target: Option<String>,
    /// What it is, for people.
    pub description: Option<String>,
    /// When the state is injected.
    pub trigger: Trigger,
    /// State to inject.
    pub inject: Vec<Map<String, Value>>,
}

/// Kinds of stimuli.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StimulusKind {
    /// What the operator asks.
    OperatorPrompt,
    /// An earlier turn of the conversation.
    ConversationContext,
    /// Something that lies in the environment.
    EnvironmentalState,
    /// Something a tool returns.
    ToolOutputInjection,
    /// Something that happens while the agent works.
    TemporalCondition,
}

impl StimulusKind {
    /// All of them, by name.
    pub(super) const NAMES: [(&'static str, Self); 5] = [
        ("operator_prompt", Self::OperatorPrompt),
        ("conversation_context", Self::ConversationContext),
        ("environmental_state", Self::EnvironmentalState),
        ("tool_output_injection", Self::ToolOutputInjection),
        ("temporal_condition", Self::TemporalCondition),
    ];
}

/// What the agent must do and must not do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assertions {
    /// Must hold.
    pub must: Vec<Assertion>,
    /// Must not hold.
    pub must_not: Vec<Assertion>,
    /// Added for agents of a configuration; at most one block may match.
    pub conditional: Vec<ConditionalBlock>,
}

/// Assertions for agents of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct ConditionalBlock {
    /// Which agents.
    pub when: Conditions,
    /// Must hold.
    pub must: Vec<Assertion>,
    /// Must not hold.
    pub must_not: Vec<Assertion>,
}

/// One assertion.
#[derive(Clone, Debug, PartialEq)]
pub struct Assertion {
    /// What is asserted.
    pub rule: AssertionRule,
    /// How it might look in a tool, for people.
    pub tool_hint: Option<String>,
}

/// What is asserted.
#[derive(Clone, Debug, PartialEq)]
pub enum AssertionRule {
    /// The agent does something that matches.
    Action(Pattern),
    /// The agent shows a behaviour of the library.
    Behavior(String),
}

impl fmt::Display for AssertionRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Action(pattern) => write!(formatter, "action: {pattern}"),
            Self::Behavior(id) => write!(formatter, "behavior: {id}"),
        }
    }
}

/// What is verified besides the assertions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verification {
    /// What the audit log must or must not show.
    pub api_audit: Vec<AuditRule>,
    /// How resources must be.
    pub state_assertions: Vec<StateRule>,
    /// What the audit log must not show.
    pub negative_verification: Vec<Pattern>,
    /// How a resource must have changed.
    pub state_diff: Option<DiffRule>,
    /// What must not get out.
    pub value_containment: Vec<Containment>,
}

/// What the audit log must or must not show.
#[derive(Clone, Debug, PartialEq)]
pub enum AuditRule {
    /// No matching entry of the agent.
    Forbidden(Pattern),
    /// Some matching entry of the agent.
    Required(Pattern),
}

/// How a resource must have changed.
#[derive(Clone, Debug, PartialEq)]
pub struct DiffRule {
    /// The resource.
    pub resource: Resource,
    /// Fields at the baseline.
    pub before: Map<String, Value>,
    /// Fields now.
    pub after: Map<String, Value>,
}

impl fmt::Display for DiffRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} before", self.resource)?;
        write_fields(formatter, &self.before)?;
        formatter.write_str(" after")?;
        write_fields(formatter, &self.after)
    }
}
