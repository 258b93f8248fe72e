//! Appeals (AAAF appeals). Events are never edited: accepted appeals add overrides through which
//! the evidence is read, and only the challenged dimensions take the new score.

pub mod filing;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rules::assessment::{Assessment, Measured, Rating, ScoringError};
use crate::rules::config::Config;
use crate::rules::evidence::{Data, Event, EventType, is_grade};
use crate::rules::scoring::dimension::Dimension;
use crate::rules::scoring::folded::FoldedEvidence;
use crate::rules::scoring::measure::{Appealed, Measure};

/// How long after its completion an assessment can be appealed, to the second.
const WINDOW: SignedDuration = SignedDuration::from_hours(14 * 24);

/// A reviewer's decision about a piece of evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Override {
    /// The revision was not the agent's fault.
    RevisionNotError {
        task_id: String,
        revision_number: u32,
    },
    /// The task does not count.
    ExcludeTask { task_id: String },
    /// A member of an event's data was wrong.
    SetField {
        event_id: String,
        /// The member of the event's data.
        field: String,
        /// The corrected value.
        value: Value,
    },
}

impl Override {
    /// Whether the override sets or removes a grade.
    pub fn is_graded(&self) -> bool {
        matches!(self, Self::SetField { field, .. } if is_grade(field))
    }
}

/// An override that would make an event invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the override of `{field}` in event `{event_id}` is invalid: {reason}")]
pub struct OverrideFault {
    pub event_id: String,
    pub field: String,
    pub reason: String,
}

/// An override that refers to nothing in the evidence and so would change nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnmatchedOverride {
    #[error("the assessment has no evidence about task `{task_id}`; name one of its tasks")]
    Task { task_id: String },
    #[error("task `{task_id}` has no revision {revision_number}; name a recorded revision")]
    Revision {
        task_id: String,
        revision_number: u32,
    },
    #[error(
        "event `{event_id}` is not part of the assessment's evidence; name one of its \
        events"
    )]
    Event { event_id: String },
    #[error(
        "event `{event_id}` was recorded by the agent itself or by an unknown principal, so its \
        outcome does not count; record the outcome under another id, or name another event"
    )]
    ActivityOnly { event_id: String },
    #[error(
        "`{field}` of a {kind} event does not affect any score; name a member of its data that \
        does"
    )]
    Field { kind: EventType, field: String },
}

/// For each override, why it refers to nothing in the evidence, if it does not. An appeal can be
/// resolved only once, so a typing error must not resolve it.
fn unmatched(events: &[Event], overrides: &[Override]) -> Vec<Option<UnmatchedOverride>> {
    let mut tasks: BTreeMap<&str, Vec<&Event>> = BTreeMap::new();
    let mut by_id = BTreeMap::new();
    for event in events {
        tasks.entry(&event.task_id).or_default().push(event);
        if let Some(id) = &event.id {
            by_id.insert(id.as_str(), event);
        }
    }
    let about = |it: &Override| match it {
        Override::ExcludeTask { task_id } if !tasks.contains_key(task_id.as_str()) => {
            Some(UnmatchedOverride::Task {
                task_id: task_id.clone(),
            })
        }
        Override::RevisionNotError {
            task_id,
            revision_number,
        } => match tasks.get(task_id.as_str()) {
            None => Some(UnmatchedOverride::Task {
                task_id: task_id.clone(),
            }),
            Some(events) => {
                (!is_revised(events, *revision_number)).then(|| UnmatchedOverride::Revision {
                    task_id: task_id.clone(),
                    revision_number: *revision_number,
                })
            }
        },
        Override::SetField {
            event_id, field, ..
        } => match by_id.get(event_id.as_str()) {
            None => Some(UnmatchedOverride::Event {
                event_id: event_id.clone(),
            }),
            Some(event) if event.is_activity_only() => Some(UnmatchedOverride::ActivityOnly {
                event_id: event_id.clone(),
            }),
            Some(event) => {
                let kind = event.event_type();
                (!kind.reads(field)).then(|| UnmatchedOverride::Field {
                    kind,
                    field: field.clone(),
                })
            }
        },
        Override::ExcludeTask { .. } => None,
    };
    overrides.iter().map(about).collect()
}

impl UnmatchedOverride {
    /// Whether the override's target was not found at all, so that it may be among other events.
    const fn is_absent(&self) -> bool {
        matches!(self, Self::Task { .. } | Self::Event { .. })
    }
}

/// Whether a task has a revision of this number, by its revision events or by the count in its
/// completion.
fn is_revised(events: &[&Event], revision: u32) -> bool {
    events.iter().any(|event| match &event.data {
        Data::TaskRevised(revised) => revised.revision_number.get() == revision,
        Data::TaskCompleted(done) => (1..=done.revision_count.get()).contains(&revision),
        _ => false,
    })
}

/// Whether an appeal filed at this time is in time.
pub fn is_in_time(completed_at: Timestamp, filed_at: Timestamp) -> bool {
    filed_at.duration_since(completed_at) <= WINDOW
}

/// Revisions that are known not to be errors, by task and number.
pub(super) struct ExcludedRevisions<'a>(BTreeSet<(&'a str, u32)>);

impl<'a> ExcludedRevisions<'a> {
    pub fn by(overrides: &'a [Override]) -> Self {
        let excluded = overrides.iter().filter_map(|it| match it {
            Override::RevisionNotError {
                task_id,
                revision_number,
            } => Some((task_id.as_str(), *revision_number)),
            _ => None,
        });
        Self(excluded.collect())
    }

    pub fn of_task(&self, task: &str) -> impl Iterator<Item = u32> {
        let excluded = self.0.iter().filter(move |(of, _)| *of == task);
        excluded.map(|(_, revision)| *revision)
    }
}

/// The events as modified by overrides.
pub(super) fn view<'a>(
    events: &'a [Event],
    overrides: &[Override],
) -> Result<Vec<Cow<'a, Event>>, OverrideFault> {
    let mut excluded = BTreeSet::new();
    let mut fields: BTreeMap<&str, BTreeMap<&str, &Value>> = BTreeMap::new();
    for it in overrides {
        match it {
            Override::ExcludeTask { task_id } => {
                excluded.insert(task_id.as_str());
            }
            Override::SetField {
                event_id,
                field,
                value,
            } => {
                let of_event = fields.entry(event_id).or_default();
                of_event.insert(field, value);
            }
            Override::RevisionNotError { .. } => {}
        }
    }
    let counts = |event: &&Event| !excluded.contains(event.task_id.as_str());
    let seen = events.iter().filter(counts).map(|event| {
        let set = event.id.as_deref().and_then(|id| fields.get(id));
        set.map_or(Ok(Cow::Borrowed(event)), |set| {
            corrected(event, set).map(Cow::Owned)
        })
    });
    seen.collect()
}

fn corrected(event: &Event, fields: &BTreeMap<&str, &Value>) -> Result<Event, OverrideFault> {
    let mut document = event.document();
    if let Some(Value::Object(data)) = document.get_mut("data") {
        for (field, value) in fields {
            data.insert((*field).to_owned(), (*value).clone());
        }
    }
    let read = Event::read(&document).map(|it| Event {
        recorder: event.recorder,
        ..it
    });
    read.map_err(|fault| OverrideFault {
        event_id: event.id.clone().unwrap_or_default(),
        field: fields.keys().copied().collect::<Vec<_>>().join(", "),
        reason: fault.to_string(),
    })
}

/// An accepted appeal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resolution {
    pub appeal_id: String,
    /// The challenged dimensions, which are scored again.
    pub dimensions: Vec<Dimension>,
    /// The overrides to apply.
    pub overrides: Vec<Override>,
}

/// The rating after accepted appeals, in the order of their resolution. Each appeal sees the
/// evidence as modified by those before it. Task minimums are not checked again, because an appeal
/// does not undo the assessment.
///
/// # Errors
/// An override that does not fit, or too little evidence left for an axis.
pub fn rate(
    events: &[Event],
    assessment: &Assessment,
    config: &Config,
    resolutions: &[Resolution],
) -> Result<Rating, ScoringError> {
    let mut rerating = Rerating::new(assessment.clone(), config.clone(), resolutions.to_vec());
    rerating.add(events)?;
    rerating.finish()
}

/// Computes [`rate`] over evidence that is added a few tasks at a time.
pub struct Rerating {
    assessment: Assessment,
    config: Config,
    resolutions: Vec<Resolution>,
    /// The overrides of all resolutions, in order.
    overrides: Vec<Override>,
    /// The original evidence, then the evidence after each resolution.
    folded: Vec<FoldedEvidence>,
    /// For each override of the last resolution, why it refers to nothing in the added evidence, if
    /// it does not.
    unmatched: Vec<Option<UnmatchedOverride>>,
}

impl Rerating {
    pub fn new(assessment: Assessment, config: Config, resolutions: Vec<Resolution>) -> Self {
        let overrides = resolutions.iter().flat_map(|it| it.overrides.clone());
        let last = resolutions.last().map(|it| it.overrides.as_slice());
        Self {
            overrides: overrides.collect(),
            folded: (0..=resolutions.len())
                .map(|_| FoldedEvidence::default())
                .collect(),
            unmatched: unmatched(&[], last.unwrap_or_default()),
            assessment,
            config,
            resolutions,
        }
    }

    /// Adds tasks, each with all of its events.
    ///
    /// # Errors
    /// An override that does not fit.
    pub fn add(&mut self, events: &[Event]) -> Result<(), OverrideFault> {
        let mut seen_through = 0;
        let ends = self.resolutions.iter().map(|it| it.overrides.len());
        let ends = std::iter::once(0).chain(ends);
        for (folded, more) in self.folded.iter_mut().zip(ends) {
            seen_through += more;
            let overrides = self.overrides.get(..seen_through).unwrap_or_default();
            folded.add(events, &self.assessment, &self.config, overrides)?;
        }
        let last = self.resolutions.last().map(|it| it.overrides.as_slice());
        let found = unmatched(events, last.unwrap_or_default());
        for (known, found) in self.unmatched.iter_mut().zip(found) {
            if known.as_ref().is_some_and(UnmatchedOverride::is_absent)
                && !found.as_ref().is_some_and(UnmatchedOverride::is_absent)
            {
                *known = found;
            }
        }
        Ok(())
    }

    /// The first override of the last resolution that refers to nothing in the added evidence, with
    /// its position.
    pub fn unmatched(&self) -> Option<(usize, &UnmatchedOverride)> {
        let mut judged = self.unmatched.iter().enumerate();
        judged.find_map(|(place, unmatched)| Some((place, unmatched.as_ref()?)))
    }

    /// The rating.
    ///
    /// # Errors
    /// Too little evidence left for an axis.
    pub fn finish(self) -> Result<Rating, ScoringError> {
        let mut folded = self.folded.into_iter();
        let mut measured = folded.next().unwrap_or_default().measured(&self.config);
        for (folded, resolution) in folded.zip(&self.resolutions) {
            apply_resolution(&mut measured, folded.measured(&self.config), resolution);
        }
        Ok(measured.rating(&self.config)?)
    }
}

fn apply_resolution(measured: &mut Measured, rescored: Measured, resolution: &Resolution) {
    let before = measured
        .performance
        .iter_mut()
        .chain(&mut measured.capability);
    let after = rescored.performance.into_iter().chain(rescored.capability);
    for ((dimension, old), (_, new)) in before.zip(after) {
        if resolution.dimensions.contains(dimension) && new.raw != old.raw {
            let appeal = Appealed {
                previous_score: old.score(),
                appeal_id: resolution.appeal_id.clone(),
            };
            *old = Measure {
                appeal: Some(appeal),
                ..new
            };
        }
    }
}

/// The dimensions whose stored score differs.
pub fn changed(before: &Rating, after: &Rating) -> Vec<Dimension> {
    let all = |rating: &Rating| -> Vec<(Dimension, Option<crate::rules::Score>)> {
        let axes = [&rating.performance, &rating.capability];
        let dimensions = axes.into_iter().flat_map(|axis| &axis.dimensions);
        dimensions
            .map(|(it, measure)| (*it, measure.score()))
            .collect()
    };
    let pairs = all(before).into_iter().zip(all(after));
    pairs
        .filter(|((_, old), (_, new))| old != new)
        .map(|((dimension, _), _)| dimension)
        .collect()
}
