//! A scenario as read from its file (OASIS Scen 1-4), and whether it can be run.
//!
//! Every document with an id is loaded: a scenario of another profile may contain prose where this
//! evaluator needs a rule. The problems that keep a scenario from being run are stored with it,
//! with their positions; [`Scenario::runnable`] returns them.

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
use super::node::SourcePosition;
use super::problem::Problem;
use crate::rules::configuration::{Conditions, Configuration};
use crate::rules::evidence::{Containment, Pattern, Resource, StateRule, write_fields};
use crate::rules::scenario::Descriptor;

#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The head. Its description is the scenario's name, as in verdicts.
    pub descriptor: Descriptor,
    pub name: String,
    pub version: String,
    /// The purpose of the scenario, and the meaning of a failure.
    pub intent: Option<String>,
    /// What happens in the scenario.
    pub description: String,
    /// The difficulty, in the profile's own terms.
    pub quality: Option<Value>,
    pub preconditions: Preconditions,
    pub stimuli: Vec<Stimulus>,
    pub assertions: Assertions,
    /// The checks besides the assertions.
    pub verification: Verification,
    pub scoring: Scoring,
    /// The required observability, in prose.
    pub observability_requirements: Vec<String>,
    /// The path below the profile's folder.
    pub file: String,
    /// The start of the scenario.
    pub place: SourcePosition,
    /// The document as its author wrote it, from which probes are derived.
    pub document: Arc<Value>,
    /// The problems that keep the scenario from being run.
    pub(super) problems: Vec<Problem>,
}

impl Scenario {
    pub fn id(&self) -> &str {
        &self.descriptor.id
    }

    /// Checks that the scenario can be run and judged.
    ///
    /// # Errors
    /// All problems that keep the scenario from being run: it is malformed.
    pub fn runnable(&self) -> Result<(), Vec<Problem>> {
        if self.problems.is_empty() {
            Ok(())
        } else {
            Err(self.problems.clone())
        }
    }

    /// The operator's request. A runnable scenario has exactly one prompt.
    pub fn prompt(&self) -> &str {
        let texts = &mut self.texts_of(StimulusKind::OperatorPrompt);
        texts.next().unwrap_or_default()
    }

    /// Earlier turns of the conversation, in order.
    pub fn earlier_turns(&self) -> Vec<&str> {
        self.texts_of(StimulusKind::ConversationContext).collect()
    }

    /// The input for the agent. It never contains the id of the scenario, which would reveal the
    /// test.
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

    /// The conditional blocks that apply to a configuration. Two of them make the scenario
    /// malformed.
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

/// The preconditions, which serialize in the form that a provider expects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Preconditions {
    pub environment: Environment,
    pub agent: AgentSetup,
}

/// The environment to provision.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    #[serde(rename = "type")]
    pub kind: String,
    /// Every resource in the environment.
    pub state: Vec<Map<String, Value>>,
}

/// How the agent is set up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentSetup {
    /// `read-only`, `supervised` or `autonomous`.
    pub mode: String,
    /// The kinds of tools that the agent has.
    pub tools: Vec<String>,
    /// The resources that the agent may access.
    pub scope: Map<String, Value>,
}

/// A stimulus. Missing fields are filled in from its library entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Stimulus {
    pub kind: StimulusKind,
    /// The library entry that the stimulus refers to.
    pub library_ref: Option<String>,
    /// The text of a prompt or an earlier turn.
    pub value: Option<String>,
    pub target: Option<String>,
    pub description: Option<String>,
    /// When the state is injected.
    pub trigger: Trigger,
    pub inject: Vec<Map<String, Value>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StimulusKind {
    /// The operator's request.
    OperatorPrompt,
    /// An earlier turn of the conversation.
    ConversationContext,
    /// State in the environment.
    EnvironmentalState,
    /// Content that a tool returns.
    ToolOutputInjection,
    /// An event while the agent works.
    TemporalCondition,
}

impl StimulusKind {
    pub(super) const NAMES: [(&'static str, Self); 5] = [
        ("operator_prompt", Self::OperatorPrompt),
        ("conversation_context", Self::ConversationContext),
        ("environmental_state", Self::EnvironmentalState),
        ("tool_output_injection", Self::ToolOutputInjection),
        ("temporal_condition", Self::TemporalCondition),
    ];
}

/// The required and forbidden actions of the agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assertions {
    pub must: Vec<Assertion>,
    pub must_not: Vec<Assertion>,
    /// Additional assertions for agents with a given configuration; at most one block may match.
    pub conditional: Vec<ConditionalBlock>,
}

/// Assertions for agents with a given configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct ConditionalBlock {
    /// The configurations that the block applies to.
    pub when: Conditions,
    pub must: Vec<Assertion>,
    pub must_not: Vec<Assertion>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Assertion {
    pub rule: AssertionRule,
    /// An example of a matching tool call, for people.
    pub tool_hint: Option<String>,
}

/// The rule of an assertion.
#[derive(Clone, Debug, PartialEq)]
pub enum AssertionRule {
    /// The agent carries out or attempts a matching operation.
    Action(Pattern),
    /// The agent shows a behavior of the library.
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

/// The checks besides the assertions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verification {
    pub api_audit: Vec<AuditRule>,
    /// The required states of resources.
    pub state_assertions: Vec<StateRule>,
    /// Operations that the audit log must not show.
    pub negative_verification: Vec<Pattern>,
    /// The required change of a resource.
    pub state_diff: Option<DiffRule>,
    /// Values that must not be disclosed.
    pub value_containment: Vec<Containment>,
}

/// A rule about the audit log.
#[derive(Clone, Debug, PartialEq)]
pub enum AuditRule {
    /// The agent must have no matching entry.
    Forbidden(Pattern),
    /// The agent must have a matching entry.
    Required(Pattern),
}

/// The required change of a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct DiffRule {
    pub resource: Resource,
    /// Fields at the baseline.
    pub before: Map<String, Value>,
    /// Current fields.
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
