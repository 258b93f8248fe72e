//! What the tasks of suites are to assessments, and which eval runs have become evidence.

use async_trait::async_trait;
use jiff::Timestamp;

use super::{AgentNumber, OrganizationNumber, Position};
use crate::domain::aaaf::agent::OpenwopAgent;
use crate::domain::aaaf::projection::Profile;
use crate::domain::ids::{RunId, TenantId};
use crate::domain::run::record::RunRecord;
use crate::ports::StoreError;

/// A profile as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileRecord {
    /// What its tasks are.
    pub profile: Profile,
    /// When it was first set.
    pub created_at: Timestamp,
    /// When it was set last.
    pub updated_at: Timestamp,
}

impl ProfileRecord {
    /// Where a list goes on after this one.
    pub fn position(&self) -> Position {
        Position {
            created_at: self.created_at,
            id: self.profile.suite(),
        }
    }
}

/// An eval run that has ended and that nobody has looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedRun {
    /// Its place in the order of creation.
    pub number: i64,
    /// Its id.
    pub run: RunId,
}

/// Which eval runs.
#[derive(Clone, Copy, Debug)]
pub struct RunsOf<'a> {
    /// Whose runs.
    pub tenant: &'a TenantId,
    /// Of whom.
    pub agent: &'a OpenwopAgent,
    /// Created at this moment or later.
    pub since: Timestamp,
}

/// What became of an eval run, once for ever; a profile that is set makes the host look again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gathered {
    /// The run.
    pub run: RunId,
    /// Whose evidence it is.
    pub agent: AgentNumber,
    /// Its suite, `suiteId@version`.
    pub suite: String,
    /// How many events it gave.
    pub events: usize,
    /// Why it gave none.
    pub left_out: Option<LeftOut>,
}

/// Why an eval run is no evidence, or not here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// Nobody said what its tasks are.
    NoProfile,
    /// No task of it was judged, or none that the profile describes.
    NothingJudged,
    /// It shows what happened in another run, in whole or in part.
    Fork,
    /// A cassette answered in place of the models.
    Replay,
    /// A local command answered in place of the agent's model.
    AgentCommand,
    /// Its log is longer than is read.
    TooLong,
    /// Its log, or what follows from it, is not what it should be.
    Unsound,
    /// It is an assessment's stress test, which counts for that one alone.
    StressTest,
    /// Some of it, or all, was scored by a judge that may not grade: nobody has found lately that it agrees with people.
    UncalibratedJudge,
    /// Somebody has used the ids of its events for others.
    IdTaken,
    /// Its suite is another one than the profile describes.
    SuiteChanged,
}

impl LeftOut {
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

    /// The wire name.
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

    /// The one of this wire name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == name)
    }
}

/// Assessment profiles, and what became of eval runs.
#[async_trait]
pub trait Profiles: Send + Sync {
    /// Sets the profile of a version of a suite; says whether there was none. Its runs are looked at again.
    async fn set_profile(
        &self,
        organization: OrganizationNumber,
        profile: &ProfileRecord,
    ) -> Result<bool, StoreError>;
    /// The one of `suiteId@version`.
    async fn profile(
        &self,
        organization: OrganizationNumber,
        suite: &str,
    ) -> Result<Option<ProfileRecord>, StoreError>;
    /// Those after a position, in the order in which they were first set.
    async fn profiles(
        &self,
        organization: OrganizationNumber,
        after: Option<&Position>,
        limit: u32,
    ) -> Result<Vec<ProfileRecord>, StoreError>;
    /// Removes one; `false` if there was none.
    async fn remove_profile(
        &self,
        organization: OrganizationNumber,
        suite: &str,
    ) -> Result<bool, StoreError>;
    /// Ended eval runs that nobody has looked at for this organization, in the order of their creation.
    async fn runs_to_gather(
        &self,
        organization: OrganizationNumber,
        which: RunsOf<'_>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<EndedRun>, StoreError>;
    /// The record of an eval run, also of one that was deleted: its scores are kept, and who deletes a run does not get rid of
    /// evidence.
    async fn run_to_gather(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<Option<RunRecord>, StoreError>;
    /// Remembers what became of a run. That it has no profile is remembered only while that is so.
    async fn gathered(
        &self,
        organization: OrganizationNumber,
        run: &Gathered,
        now: Timestamp,
    ) -> Result<(), StoreError>;
    /// The newest runs of an agent that gave no evidence, and why.
    async fn left_out(
        &self,
        organization: OrganizationNumber,
        agent: AgentNumber,
        limit: u32,
    ) -> Result<Vec<(RunId, LeftOut)>, StoreError>;
}
