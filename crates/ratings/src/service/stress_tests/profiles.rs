//! Assessment profiles, which describe the tasks of a suite for assessments; set by people, never
//! by an agent.

use serde_json::Value;

use crate::ports::Position;
use crate::ports::profiles::ProfileRecord;
use crate::rules::projection::Profile;
use crate::service::{Member, Ratings, not_found};
use crate::store;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::TaskId;
use touchstone_packs::store as pack_store;
use touchstone_runs::rules::eval::suite_rules::SuiteRef;

/// Maximum size of a profile, in bytes.
const MAX_BYTES: usize = 1024 * 1024;

impl Ratings {
    /// Sets the profile of a suite version and returns whether it is new. Events recorded
    /// under an earlier profile do not change.
    ///
    /// # Errors
    /// `forbidden` for an agent's own key, which must not set ground truth; `validation_error` that
    /// names the field.
    pub async fn set_profile(
        &self,
        member: &Member,
        suite: &str,
        document: &Value,
    ) -> Result<(ProfileRecord, bool), Problem> {
        let message = "a profile contains ground truth, which an agent must not set for itself; use \
            another principal's key";
        self.reject_agent_key(member, message).await?;
        let suite: SuiteRef = suite.parse().map_err(|_| {
            Problem::validation(
                "suiteVersion",
                "the path must name a suite and an exact version of three numbers",
            )
        })?;
        if document.to_string().len() > MAX_BYTES {
            let message = format!("a profile must be at most {MAX_BYTES} bytes; use `defaults`");
            return Err(Problem::validation("", message));
        }
        let mut profile = Profile::read(document).map_err(|fault| {
            let message = fault.to_string();
            Problem::validation(&fault.field, message)
        })?;
        if profile.suite() != suite.to_string() {
            let message = format!("`suiteId` and `suiteVersion` must match the path, {suite}");
            return Err(Problem::validation("suiteId", message));
        }
        self.tasks_exist(member, &suite, &mut profile).await?;
        let now = self.clock.now();
        let organization = member.organization.number;
        let before = store::profiles::profile(&self.store, organization, &suite.to_string()).await;
        let before = before.map_err(|cause| internal(&cause))?;
        let record = ProfileRecord {
            profile,
            created_at: before.map_or(now, |it| it.created_at),
            updated_at: now,
        };
        let new = store::profiles::set_profile(&self.store, organization, &record).await;
        Ok((record, new.map_err(|cause| internal(&cause))?))
    }

    /// Binds the profile to the content of its suite, if the suite is known, and rejects tasks that
    /// the suite does not have.
    async fn tasks_exist(
        &self,
        member: &Member,
        suite: &SuiteRef,
        profile: &mut Profile,
    ) -> Result<(), Problem> {
        let tenant = &member.organization.tenant;
        let known =
            pack_store::inventory::suite(&self.store, tenant, &suite.suite_id, &suite.version);
        let Some(known) = known.await.map_err(|cause| internal(&cause))? else {
            return Ok(());
        };
        // A stated digest is the suite's; the host adds the scoring document's.
        profile.scoring_digest = known.scoring.clone();
        if profile.is_of_other_suite(&known.digest, known.scoring.as_deref()) {
            let message = format!(
                "`suiteDigest` must match the digest of {suite}, which is {}; leave it out to \
                have it set",
                known.digest
            );
            return Err(Problem::validation("suiteDigest", message));
        }
        profile.suite_digest = Some(known.digest.clone());
        let library = &self.runs.library;
        let index = library.suite_index(&known.digest).await;
        let Some(index) = index.map_err(|cause| internal(&cause))? else {
            return Ok(());
        };
        for name in profile.tasks.keys() {
            let task = library.task(&index, &TaskId::from(name.as_str())).await;
            if task.map_err(|cause| internal(&cause))?.is_none() {
                let field = format!("tasks.{name}");
                let message = format!("`{field}`: {suite} has no such task");
                return Err(Problem::validation(&field, message));
            }
        }
        Ok(())
    }

    /// The profile of a suite version.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn profile(&self, member: &Member, suite: &str) -> Result<ProfileRecord, Problem> {
        let suite: SuiteRef = suite.parse().map_err(|_| not_found("profile"))?;
        let found =
            store::profiles::profile(&self.store, member.organization.number, &suite.to_string())
                .await;
        let found = found.map_err(|cause| internal(&cause))?;
        found.ok_or_else(|| not_found("profile"))
    }

    /// Profiles of the organization, in the order in which they were first set.
    ///
    /// # Errors
    /// The store failed.
    pub async fn profiles(
        &self,
        member: &Member,
        after: Option<&Position>,
        limit: u32,
    ) -> Result<Vec<ProfileRecord>, Problem> {
        let profiles =
            store::profiles::profiles(&self.store, member.organization.number, after, limit);
        profiles.await.map_err(|cause| internal(&cause))
    }

    /// Removes a profile: later runs of the suite are not evidence. Recorded events stay.
    ///
    /// # Errors
    /// `forbidden` for an agent's own key; `not_found`.
    pub async fn remove_profile(&self, member: &Member, suite: &str) -> Result<(), Problem> {
        let message = "a profile decides which eval runs are evidence, which an agent must not decide \
            for itself; use another principal's key";
        self.reject_agent_key(member, message).await?;
        let suite: SuiteRef = suite.parse().map_err(|_| not_found("profile"))?;
        let removed = store::profiles::remove_profile(
            &self.store,
            member.organization.number,
            &suite.to_string(),
        )
        .await;
        match removed.map_err(|cause| internal(&cause))? {
            true => Ok(()),
            false => Err(not_found("profile")),
        }
    }
}
