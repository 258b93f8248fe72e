//! An organization's own stress tasks: added, listed and removed by people, never by an agent.

use serde_json::Value;

use crate::ports::Position;
use crate::ports::own_tasks::OwnTaskRecord;
use crate::rules::stress_test::own_task::{MAX_OCTETS, MAX_TASKS, OwnTask};
use crate::service::{Member, Ratings, config, is_id, not_found};
use crate::store;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};

/// Number of tasks to read: the maximum plus one, since concurrent requests may add a few too many.
const FETCH_LIMIT: u32 = 101;

const NOT_BY_AGENTS: &str = "stress tasks contain ground truth, which agents under assessment must \
    not read; use another principal's key";

impl Ratings {
    /// Adds a stress task of the organization.
    ///
    /// # Errors
    /// `forbidden` for an agent's own key, which must not set ground truth; `validation_error` that
    /// names the field; `conflict` at the limit of tasks or of their total size.
    pub async fn add_own_task(
        &self,
        member: &Member,
        body: &Value,
    ) -> Result<OwnTaskRecord, Problem> {
        self.reject_agent_key(member, NOT_BY_AGENTS).await?;
        let config = config::of(&member.organization)?;
        let task = OwnTask::parse(&self.fresh_id(), body, &config.rules.domain_taxonomy)?;
        let others = self.all_own_tasks(member).await?;
        if others.len() >= MAX_TASKS {
            let message = format!(
                "an organization can have at most {MAX_TASKS} stress tasks; remove one first"
            );
            return Err(Problem::new(ErrorCode::Conflict, message));
        }
        let bytes: usize = others.iter().map(|it| it.task.octets()).sum();
        if bytes + task.octets() > MAX_OCTETS {
            let message = format!(
                "the stress tasks of an organization can have at most {MAX_OCTETS} bytes of \
                JSON in total; remove or shorten some"
            );
            return Err(Problem::new(ErrorCode::Conflict, message));
        }
        let record = OwnTaskRecord {
            task,
            created_at: self.clock.now(),
        };
        let decision = self.audit_entry(&member.caller, "stress-tests:add", &record.task.id);
        let added =
            store::own_tasks::add_own_task(&self.store, &member.organization, &record, &decision)
                .await;
        added.map_err(|cause| internal(&cause))?;
        Ok(record)
    }

    /// Stress tasks of the organization, in the order of creation.
    ///
    /// # Errors
    /// `forbidden` for an agent's own key, because the tasks include the answers.
    pub async fn own_tasks(
        &self,
        member: &Member,
        after: Option<&Position>,
        limit: u32,
    ) -> Result<Vec<OwnTaskRecord>, Problem> {
        self.reject_agent_key(member, NOT_BY_AGENTS).await?;
        let organization = member.organization.number;
        let found = store::own_tasks::own_tasks(&self.store, organization, after, limit).await;
        found.map_err(|cause| internal(&cause))
    }

    pub(crate) async fn all_own_tasks(
        &self,
        member: &Member,
    ) -> Result<Vec<OwnTaskRecord>, Problem> {
        let organization = member.organization.number;
        let found = store::own_tasks::own_tasks(&self.store, organization, None, FETCH_LIMIT).await;
        found.map_err(|cause| internal(&cause))
    }

    /// Removes a stress task. Assessments ordered later do not use it.
    ///
    /// # Errors
    /// `forbidden` for an agent's own key; `not_found`.
    pub async fn remove_own_task(&self, member: &Member, id: &str) -> Result<(), Problem> {
        self.reject_agent_key(member, NOT_BY_AGENTS).await?;
        if !is_id(id) {
            return Err(not_found("stress task"));
        }
        let decision = self.audit_entry(&member.caller, "stress-tests:remove", id);
        let removed =
            store::own_tasks::remove_own_task(&self.store, &member.organization, id, &decision)
                .await;
        match removed.map_err(|cause| internal(&cause))? {
            true => Ok(()),
            false => Err(not_found("stress task")),
        }
    }
}
