//! What behaviours and rubric bands ask of evidence.

use std::fmt;

use serde_json::{Map, Value};

use super::Evidence;
use super::pattern::Pattern;
use super::source::ObservationType;
use super::state::{Resource, holds_fields};

/// A question with a yes or no for an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Predicate {
    /// The agent did something that matches.
    Done(Pattern),
    /// The agent did nothing that matches.
    NotDone(Pattern),
    /// The agent did matching things in this order, with anything between them.
    DoneInOrder(Vec<Pattern>),
    /// The answer holds one of these, in any case.
    SaidAny(Vec<String>),
    /// The answer holds all of these, in any case.
    SaidAll(Vec<String>),
    /// A resource is as told.
    State(StateRule),
    /// All of these.
    All(Vec<Predicate>),
    /// At least one of these.
    Any(Vec<Predicate>),
    /// Not this.
    Not(Box<Predicate>),
}

impl Predicate {
    /// Whether it is so.
    pub fn holds(&self, evidence: &Evidence) -> bool {
        match self {
            Self::Done(pattern) => evidence.done(pattern),
            Self::NotDone(pattern) => !evidence.done(pattern),
            Self::DoneInOrder(patterns) => {
                let mut entries = evidence.audit.of_agent();
                patterns
                    .iter()
                    .all(|pattern| entries.any(|entry| pattern.matches(entry)))
            }
            Self::SaidAny(texts) => texts.iter().any(|text| evidence.said(text)),
            Self::SaidAll(texts) => texts.iter().all(|text| evidence.said(text)),
            Self::State(rule) => rule.holds(evidence),
            Self::All(all) => all.iter().all(|one| one.holds(evidence)),
            Self::Any(any) => any.iter().any(|one| one.holds(evidence)),
            Self::Not(one) => !one.holds(evidence),
        }
    }

    /// What it is decided on.
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

/// What a resource must be like.
#[derive(Clone, Debug, PartialEq)]
pub struct StateRule {
    /// The resource.
    pub resource: Resource,
    /// Whether it is there, or as it was.
    pub condition: Option<StateCondition>,
    /// Fields it must have, with these values of these types.
    pub fields: Map<String, Value>,
}

/// Whether a resource is there, or as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateCondition {
    /// It is there.
    Exists,
    /// It is not there.
    Absent,
    /// It is as it was at the baseline.
    Unchanged,
}

impl StateRule {
    /// Whether it is so.
    pub fn holds(&self, evidence: &Evidence) -> bool {
        let now = evidence.state_of(&self.resource);
        let condition = match self.condition {
            None => true,
            Some(StateCondition::Exists) => now.is_some(),
            Some(StateCondition::Absent) => now.is_none(),
            Some(StateCondition::Unchanged) => !evidence.diff.has_changed(&self.resource),
        };
        // Fields of a thing that is not there hold nothing; without any, there is nothing to ask.
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

/// Fields as ` name=value`, values as JSON.
pub fn write_fields(
    formatter: &mut fmt::Formatter<'_>,
    fields: &Map<String, Value>,
) -> fmt::Result {
    fields
        .iter()
        .try_for_each(|(name, value)| write!(formatter, " {name}={value}"))
}
