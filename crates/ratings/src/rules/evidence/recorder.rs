//! Who recorded an event, and which of its statements count as a result (ADR 0030).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::read::{Data, Event};

/// The kind of statements that an event may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Entitlement {
    /// That something happened: which tools were called, and when.
    Activity,
    /// How it ended: outcomes, revisions, checklists, ground truth.
    Outcomes,
    /// How good it was, as a matter of judgment.
    Grades,
}

/// Members of an event's data that are grades.
const GRADES: &[&str] = &[
    "quality_score",
    "workflow_design_score",
    "communication_clarity_score",
    "synthesis_quality_score",
];

/// Whether a member of an event's data is a grade, which requires [`Entitlement::Grades`].
pub fn is_grade(member: &str) -> bool {
    GRADES.contains(&member)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recorder {
    /// This host, from its own eval runs.
    Host,
    /// A key that names a person, or the operator of a data folder.
    Person,
    /// A key of a model grader with a sufficient judge calibration.
    Grader,
    /// A key of the organization that names neither a person nor an agent, such as that of a CI
    /// system.
    Organization,
    /// A key of a model grader without a sufficient calibration.
    UncalibratedGrader,
    /// A key of an agent of the organization.
    Agent,
    /// Recorded before the principal was stored.
    Unknown,
}

impl Recorder {
    pub const ALL: &'static [Self] = &[
        Self::Host,
        Self::Person,
        Self::Grader,
        Self::Organization,
        Self::UncalibratedGrader,
        Self::Agent,
        Self::Unknown,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Person => "person",
            Self::Grader => "grader",
            Self::Organization => "organization",
            Self::UncalibratedGrader => "uncalibrated_grader",
            Self::Agent => "agent",
            Self::Unknown => "unknown",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|it| it.as_str() == name).copied()
    }

    /// The statements that its events may make.
    pub const fn entitlement(self) -> Entitlement {
        match self {
            Self::Host | Self::Person | Self::Grader => Entitlement::Grades,
            Self::Organization | Self::UncalibratedGrader => Entitlement::Outcomes,
            Self::Agent | Self::Unknown => Entitlement::Activity,
        }
    }
}

impl fmt::Display for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Number of events by the kind of principal that recorded them.
pub type Sources = BTreeMap<Recorder, usize>;

/// The share of each source, from 0 to 1, rounded to four decimals.
pub fn shares(sources: &Sources) -> BTreeMap<Recorder, f64> {
    let total = sources.values().sum::<usize>();
    let share = |events: usize| (events as f64 / total.max(1) as f64 * 10_000.0).round() / 10_000.0;
    sources
        .iter()
        .map(|(recorder, events)| (*recorder, share(*events)))
        .collect()
}

/// The sources with their shares in percent, largest first; empty if unknown.
pub fn in_words(sources: &Sources) -> String {
    let total = sources.values().sum::<usize>();
    let mut sorted: Vec<(Recorder, usize)> = sources.iter().map(|(it, n)| (*it, *n)).collect();
    sorted.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    let words = sorted.into_iter().map(|(recorder, events)| {
        let name = recorder.as_str().replace('_', " ");
        // Truncated, so that a part is never shown as the whole.
        match events * 100 / total.max(1) {
            0 => format!("{name} below 1 %"),
            percent => format!("{name} {percent} %"),
        }
    });
    words.collect::<Vec<_>>().join(", ")
}

impl Event {
    /// The event without the statements that its recorder may not make. Events limited to activity
    /// are kept unchanged; the selection of an assessment uses only their tool calls.
    #[must_use]
    pub fn recorded_by(mut self, recorder: Recorder) -> Self {
        if recorder.entitlement() < Entitlement::Grades {
            self.data.drop_grades();
        }
        self.recorder = Some(recorder);
        self
    }

    /// Whether the event states nothing that counts except activity.
    pub fn is_activity_only(&self) -> bool {
        self.recorder
            .is_some_and(|it| it.entitlement() == Entitlement::Activity)
    }

    /// Whether the event states more than the entitlement allows.
    pub fn exceeds(&self, entitlement: Entitlement) -> bool {
        entitlement < self.data.required_entitlement()
    }
}

impl Data {
    fn drop_grades(&mut self) {
        match self {
            Self::TaskCompleted(it) => it.quality_score = None,
            Self::OrchestrationPlan(it) => {
                it.workflow_design_score = None;
                it.communication_clarity_score = None;
            }
            Self::OrchestrationResult(it) => {
                it.workflow_design_score = None;
                it.communication_clarity_score = None;
                it.synthesis_quality_score = None;
            }
            Self::TaskAssigned(_)
            | Self::TaskRevised(_)
            | Self::ToolInvoked(_)
            | Self::DelegationDecision(_)
            | Self::DelegationOutcome(_) => {}
        }
    }

    /// The highest entitlement that the event's statements need.
    fn required_entitlement(&self) -> Entitlement {
        let graded = match self {
            Self::TaskCompleted(it) => it.quality_score.is_some(),
            Self::OrchestrationPlan(it) => {
                it.workflow_design_score.is_some() || it.communication_clarity_score.is_some()
            }
            Self::OrchestrationResult(it) => {
                it.workflow_design_score.is_some()
                    || it.communication_clarity_score.is_some()
                    || it.synthesis_quality_score.is_some()
            }
            Self::ToolInvoked(_) => return Entitlement::Activity,
            Self::TaskAssigned(_)
            | Self::TaskRevised(_)
            | Self::DelegationDecision(_)
            | Self::DelegationOutcome(_) => false,
        };
        if graded {
            Entitlement::Grades
        } else {
            Entitlement::Outcomes
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recorder_has_a_wire_name_that_reads_back() {
        for recorder in Recorder::ALL {
            assert_eq!(Recorder::parse(recorder.as_str()), Some(*recorder));
            let written = serde_json::to_value(recorder).unwrap();
            assert_eq!(written, recorder.as_str());
        }
    }

    #[test]
    fn shares_name_the_largest_source_first_and_never_round_up_to_all() {
        let sources = Sources::from([
            (Recorder::Host, 1),
            (Recorder::Person, 996),
            (Recorder::Agent, 3),
        ]);
        assert_eq!(
            in_words(&sources),
            "person 99 %, agent below 1 %, host below 1 %"
        );
        assert_eq!(shares(&sources)[&Recorder::Person], 0.996);
        assert_eq!(in_words(&Sources::new()), "");
    }
}
