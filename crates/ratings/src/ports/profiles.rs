//! Store access to assessment profiles, which describe the tasks of suites, and to the record of
//! which eval runs have become evidence.

use jiff::Timestamp;

use crate::ports::Position;
use crate::ports::agents::AgentNumber;
use crate::rules::agent::OpenwopAgent;
use crate::rules::projection::Profile;
use touchstone_kit::ids::{RunId, TenantId};

/// A stored profile.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileRecord {
    pub profile: Profile,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl ProfileRecord {
    /// The position of this record in a list.
    pub fn position(&self) -> Position {
        Position::new(self.created_at, self.profile.suite())
    }
}

/// An eval run that has ended and has not been processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedRun {
    /// Its place in the order of creation.
    pub number: i64,
    pub run: RunId,
}

/// Selects eval runs.
#[derive(Clone, Copy, Debug)]
pub struct RunQuery<'a> {
    /// The tenant that owns the runs.
    pub tenant: &'a TenantId,
    /// The agent that was evaluated.
    pub agent: &'a OpenwopAgent,
    /// Only runs created at this time or later.
    pub since: Timestamp,
}

/// The final result of processing an eval run. Setting a profile makes the host process the run
/// again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectedRun {
    pub run: RunId,
    /// The agent that the evidence is about.
    pub agent: AgentNumber,
    /// `suiteId@version`.
    pub suite: String,
    /// Number of events that the run produced.
    pub events: usize,
    /// Why the run produced no events.
    pub left_out: Option<ExclusionReason>,
}

/// Why an eval run is not evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExclusionReason {
    /// The suite has no profile.
    NoProfile,
    /// No task was judged, or no judged task is in the profile.
    NothingJudged,
    /// The run is a fork, so it repeats another run in whole or in part.
    Fork,
    /// A cassette answered instead of the models.
    Replay,
    /// A local command answered instead of the agent's model.
    AgentCommand,
    /// The log exceeds the read limit.
    TooLong,
    /// The log, or an event derived from it, is invalid.
    Unsound,
    /// The run is part of an assessment's stress test and counts only for that assessment.
    StressTest,
    /// A judge scored all or part of the run without a current calibration against people.
    UncalibratedJudge,
    /// The ids of its events are already used by other events.
    IdTaken,
    /// The profile describes another version of the suite's content.
    SuiteChanged,
}

impl ExclusionReason {
    const ALL: [Self; 11] = [
        Self::NoProfile,
        Self::NothingJudged,
        Self::Fork,
        Self::Replay,
        Self::AgentCommand,
        Self::TooLong,
        Self::Unsound,
        Self::StressTest,
        Self::UncalibratedJudge,
        Self::IdTaken,
        Self::SuiteChanged,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoProfile => "no_profile",
            Self::NothingJudged => "nothing_judged",
            Self::Fork => "fork",
            Self::Replay => "replay",
            Self::AgentCommand => "agent_command",
            Self::TooLong => "log_too_long",
            Self::Unsound => "log_unsound",
            Self::StressTest => "stress_test",
            Self::UncalibratedJudge => "uncalibrated_judge",
            Self::IdTaken => "id_taken",
            Self::SuiteChanged => "suite_changed",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == name)
    }
}
