//! An organization's own stress tasks: added, listed and removed by people, never by an agent.

use serde_json::Value;

use crate::ports::Position;
use crate::ports::own_tasks::OwnTaskRecord;
use crate::rules::stress_test::own_task::{MOST, MOST_OCTETS, OwnTask};
use crate::service::{Aaaf, Member, config, is_id, not_there};
use crate::store;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};

/// Number of tasks to read: the maximum plus one, since concurrent requests may add a few too many.
const REACH: u32 = 101;

impl Aaaf {
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
        self.not_by_agents(member).await?;
        let config = config::of(&member.organization)?;
        let task = OwnTask::parse(&self.fresh_id(), body, &config.rules.domain_taxonomy)?;
        let others = self.all_own_tasks(member).await?;
        if others.len() >= MOST {
            let message =
                format!("an organization can have at most {MOST} stress tasks; remove one first");
            return Err(Problem::new(ErrorCode::Conflict, message));
        }
        let octets: usize = others.iter().map(|it| it.task.octets()).sum();
        if octets + task.octets() > MOST_OCTETS {
            let message = format!(
                "the stress tasks of an organization can have at most {MOST_OCTETS} bytes of \
                JSON in total; remove or shorten some"
            );
            return Err(Problem::new(ErrorCode::Conflict, message));
        }
        let record = OwnTaskRecord {
            task,
            created_at: self.clock.now(),
        };
        let decision = self.decided(&member.caller, "stress-tests:add", &record.task.id);
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
        self.not_by_agents(member).await?;
        let organization = member.organization.number;
        let found = store::own_tasks::own_tasks(&self.store, organization, after, limit).await;
        found.map_err(|cause| internal(&cause))
    }

    pub(crate) async fn all_own_tasks(
        &self,
        member: &Member,
    ) -> Result<Vec<OwnTaskRecord>, Problem> {
        let organization = member.organization.number;
        let found = store::own_tasks::own_tasks(&self.store, organization, None, REACH).await;
        found.map_err(|cause| internal(&cause))
    }

    /// Removes a stress task. Assessments ordered later do not use it.
    ///
    /// # Errors
    /// `forbidden` for an agent's own key; `not_found`.
    pub async fn remove_own_task(&self, member: &Member, id: &str) -> Result<(), Problem> {
        self.not_by_agents(member).await?;
        if !is_id(id) {
            return Err(not_there("stress task"));
        }
        let decision = self.decided(&member.caller, "stress-tests:remove", id);
        let removed =
            store::own_tasks::remove_own_task(&self.store, &member.organization, id, &decision)
                .await;
        match removed.map_err(|cause| internal(&cause))? {
            true => Ok(()),
            false => Err(not_there("stress task")),
        }
    }

    async fn not_by_agents(&self, member: &Member) -> Result<(), Problem> {
        match self.is_agents_key(member).await? {
            false => Ok(()),
            true => Err(Problem::new(
                ErrorCode::Forbidden,
                "stress tasks contain ground truth, which agents under assessment must not \
                read; use another principal's key",
            )),
        }
    }
}
