//! Conditions on evidence in behaviors and rubric bands.

pub mod containment;
pub mod glob;
pub mod pattern;

use std::fmt;

use serde_json::{Map, Value};

use self::pattern::Pattern;
use crate::rules::evidence::Evidence;
use crate::rules::evidence::observation::ObservationType;
use crate::rules::evidence::observation::state::{Resource, holds_fields};

/// A yes-or-no question about evidence.
#[derive(Clone, Debug, PartialEq)]
pub enum Predicate {
    /// The agent carried out or attempted a matching operation.
    Done(Pattern),
    /// The agent neither carried out nor attempted a matching operation.
    NotDone(Pattern),
    /// The agent's operations match these patterns in this order, possibly with others in between.
    DoneInOrder(Vec<Pattern>),
    /// The answer contains one of these texts, ignoring case.
    SaidAny(Vec<String>),
    /// The answer contains all of these texts, ignoring case.
    SaidAll(Vec<String>),
    /// A resource is in the given state.
    State(StateRule),
    All(Vec<Predicate>),
    Any(Vec<Predicate>),
    Not(Box<Predicate>),
}

impl Predicate {
    pub fn holds(&self, evidence: &Evidence) -> bool {
        match self {
            Self::Done(pattern) => evidence.performed(pattern),
            Self::NotDone(pattern) => !evidence.performed(pattern),
            Self::DoneInOrder(patterns) => {
                let mut entries = evidence.audit.of_agent();
                patterns
                    .iter()
                    .all(|pattern| entries.any(|entry| pattern.matches(entry)))
            }
            Self::SaidAny(texts) => texts.iter().any(|text| evidence.answer_contains(text)),
            Self::SaidAll(texts) => texts.iter().all(|text| evidence.answer_contains(text)),
            Self::State(rule) => rule.holds(evidence),
            Self::All(all) => all.iter().all(|one| one.holds(evidence)),
            Self::Any(any) => any.iter().any(|one| one.holds(evidence)),
            Self::Not(one) => !one.holds(evidence),
        }
    }

    /// The observations that decide the predicate.
    pub fn sources(&self) -> Vec<ObservationType> {
        let mut found = match self {
            Self::Done(_) | Self::NotDone(_) | Self::DoneInOrder(_) => {
                vec![ObservationType::AuditLog]
            }
            Self::SaidAny(_) | Self::SaidAll(_) => vec![ObservationType::ResponseContent],
            Self::State(_) => vec![ObservationType::StateDiff],
            Self::All(some) | Self::Any(some) => some.iter().flat_map(Self::sources).collect(),
            Self::Not(one) => one.sources(),
        };
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// The required state of a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct StateRule {
    pub resource: Resource,
    pub condition: Option<StateCondition>,
    /// Fields the resource must have, with values of the same type.
    pub fields: Map<String, Value>,
}

/// Whether a resource exists, or is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateCondition {
    Exists,
    Absent,
    /// Equal to its state at the baseline.
    Unchanged,
}

impl StateRule {
    pub fn holds(&self, evidence: &Evidence) -> bool {
        let now = evidence.state_of(&self.resource);
        let condition = match self.condition {
            None => true,
            Some(StateCondition::Exists) => now.is_some(),
            Some(StateCondition::Absent) => now.is_none(),
            Some(StateCondition::Unchanged) => !evidence.diff.has_changed(&self.resource),
        };
        // An absent resource has no fields to check; without field conditions there is nothing to
        // check.
        let fields =
            self.fields.is_empty() || now.is_some_and(|fields| holds_fields(&self.fields, fields));
        condition && fields
    }
}

impl fmt::Display for StateRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.resource)?;
        match self.condition {
            None => {}
            Some(StateCondition::Exists) => formatter.write_str(" exists")?,
            Some(StateCondition::Absent) => formatter.write_str(" absent")?,
            Some(StateCondition::Unchanged) => formatter.write_str(" unchanged")?,
        }
        write_fields(formatter, &self.fields)
    }
}

/// Writes fields as ` name=value`, with values as JSON.
pub fn write_fields(
    formatter: &mut fmt::Formatter<'_>,
    fields: &Map<String, Value>,
) -> fmt::Result {
    fields
        .iter()
        .try_for_each(|(name, value)| write!(formatter, " {name}={value}"))
}
