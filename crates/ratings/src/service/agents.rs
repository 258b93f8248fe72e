//! Agents: enrolled, listed, changed, archived.

use crate::ports::Position;
use crate::ports::agents::{AgentNumber, AgentRecord};
use crate::ports::assessments::AssessmentRecord;
use crate::rules::agent::{Change, Enrollment, Profile, Status};
use crate::service::{Member, Ratings, changed_concurrently, is_id, not_found};
use crate::store;
use touchstone_host::access::Scope;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::KeyId;

/// By renaming itself or changing its OpenWOP agent, an agent could hide that a key is its own;
/// under a person's name, it could record evidence as that person.
const NOT_BY_AGENTS: &str =
    "an agent's own key cannot enroll, change or archive agents; use another principal's key";

impl Ratings {
    /// Enrolls an agent.
    ///
    /// # Errors
    /// `forbidden` for an agent's own key; `validation_error` for a key that does not exist in the
    /// tenant; `conflict` if an agent of this name exists.
    pub async fn enroll(
        &self,
        member: &Member,
        enrollment: Enrollment,
    ) -> Result<AgentRecord, Problem> {
        let now = self.clock.now();
        let own = &member.organization.id;
        if enrollment.organization.is_some_and(|named| named != *own) {
            let message = format!(
                "`organization_id` must be {own}, the organization of this key, or be left out"
            );
            return Err(
                Problem::new(ErrorCode::Forbidden, message).with("field", "organization_id")
            );
        }
        self.reject_agent_key(member, NOT_BY_AGENTS).await?;
        self.require_keys(member, &enrollment.profile).await?;
        self.require_reachable(member, &enrollment.profile)?;
        self.require_unique_openwop_agent(member, None, &enrollment.profile)
            .await?;
        let agent = AgentRecord {
            number: AgentNumber::default(),
            id: self.fresh_id(),
            name: enrollment.name,
            archived: false,
            suspended: false,
            observed: false,
            profile: enrollment.profile,
            created_at: now,
            updated_at: now,
            revision: 0,
        };
        let added = store::agents::add_agent(&self.store, member.organization.number, &agent);
        match added.await {
            Ok(()) => Ok(agent),
            Err(StoreError::Exists(_)) => Err(name_taken()),
            Err(cause) => Err(internal(&cause)),
        }
    }

    /// An agent of the organization.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn agent(&self, member: &Member, id: &str) -> Result<AgentRecord, Problem> {
        if !is_id(id) {
            return Err(not_found("agent"));
        }
        let agent = store::agents::agent(&self.store, member.organization.number, id).await;
        let agent = agent.map_err(|cause| internal(&cause))?;
        agent.ok_or_else(|| not_found("agent"))
    }

    /// The rating shown in an agent's profile to readers of assessments: the last one that no
    /// reviewer rejected.
    ///
    /// # Errors
    /// The store failed.
    pub async fn published_rating(
        &self,
        member: &Member,
        agent: &AgentRecord,
    ) -> Result<Option<AssessmentRecord>, Problem> {
        if !member.caller.has(Scope::AssessmentsRead) {
            return Ok(None);
        }
        let rating = self.accepted_rating(agent.number).await;
        rating.map_err(|cause| internal(&cause))
    }

    /// The store's key of an agent of the organization; `None` if no agent has this id.
    pub(super) async fn agent_number(
        &self,
        member: &Member,
        id: &str,
    ) -> Result<Option<AgentNumber>, Problem> {
        if !is_id(id) {
            return Ok(None);
        }
        let agent = store::agents::agent(&self.store, member.organization.number, id).await;
        let agent = agent.map_err(|cause| internal(&cause))?;
        Ok(agent.map(|agent| agent.number))
    }

    /// Agents of the organization, in order of enrollment.
    ///
    /// # Errors
    /// The store failed.
    pub async fn agents(
        &self,
        member: &Member,
        status: Option<Status>,
        after: Option<&Position>,
        limit: u32,
    ) -> Result<Vec<AgentRecord>, Problem> {
        let organization = member.organization.number;
        let agents = store::agents::agents(&self.store, organization, status, after, limit);
        agents.await.map_err(|cause| internal(&cause))
    }

    /// Changes an agent.
    ///
    /// # Errors
    /// `not_found`; `forbidden` for an agent's own key; `validation_error` for a key that does not
    /// exist in the tenant; `conflict` if the agent is archived, was changed concurrently, or its
    /// new name is taken.
    pub async fn change_agent(
        &self,
        member: &Member,
        id: &str,
        change: Change,
    ) -> Result<AgentRecord, Problem> {
        let mut agent = self.agent(member, id).await?;
        self.reject_agent_key(member, NOT_BY_AGENTS).await?;
        if agent.archived {
            return Err(Problem::new(
                ErrorCode::Conflict,
                "this agent is archived; enroll a new agent under its name",
            ));
        }
        let before = agent.profile.reached_by.clone();
        change.apply(&mut agent.profile);
        agent.profile.check()?;
        if agent.profile.reached_by != before {
            self.require_reachable(member, &agent.profile)?;
        }
        if let Some(status) = change.status {
            agent.suspended = status == Status::Suspended;
            agent.archived = status == Status::Archived;
        }
        if let Some(name) = change.name {
            agent.name = name;
        }
        self.require_keys(member, &agent.profile).await?;
        self.require_unique_openwop_agent(member, Some(agent.number), &agent.profile)
            .await?;
        self.store_agent(member, agent).await
    }

    /// Archives an agent: its data stays, and no evidence is added.
    ///
    /// # Errors
    /// `not_found`; `forbidden` for an agent's own key; `conflict` if the agent was changed
    /// concurrently.
    pub async fn archive_agent(&self, member: &Member, id: &str) -> Result<(), Problem> {
        let mut agent = self.agent(member, id).await?;
        self.reject_agent_key(member, NOT_BY_AGENTS).await?;
        if !agent.archived {
            agent.archived = true;
            self.store_agent(member, agent).await?;
        }
        Ok(())
    }

    /// Rejects keys that do not exist in the tenant: after a typing error, the agent's own key
    /// would not be recognized.
    async fn require_keys(&self, member: &Member, profile: &Profile) -> Result<(), Problem> {
        for id in &profile.keys {
            let key = self.store.key(&KeyId::from(id.as_str())).await;
            let key = key.map_err(|cause| internal(&cause))?;
            if key.is_none_or(|it| it.tenant != member.organization.tenant) {
                let message = format!(
                    "`keys`: the tenant has no API key {id}; list ids of its \
                    keys"
                );
                return Err(Problem::validation("keys", message));
            }
        }
        Ok(())
    }

    /// Rejects a way to reach the agent that the operator does not allow for its tenant.
    fn require_reachable(&self, member: &Member, profile: &Profile) -> Result<(), Problem> {
        match &profile.reached_by {
            Some(reached_by) => self
                .runs
                .reach(&member.organization.tenant, reached_by)
                .map(drop),
            None => Ok(()),
        }
    }

    /// Rejects an agent that represents the same OpenWOP agent as another one, because a run is
    /// evidence about only one agent. Two concurrent requests may both pass; a run still counts
    /// once, for the first agent that collects it.
    async fn require_unique_openwop_agent(
        &self,
        member: &Member,
        number: Option<AgentNumber>,
        profile: &Profile,
    ) -> Result<(), Problem> {
        let Some(wanted) = &profile.openwop_agent else {
            return Ok(());
        };
        let others =
            store::agents::agents_representing(&self.store, member.organization.number, &wanted.id);
        let others = others.await.map_err(|cause| internal(&cause))?;
        let taken = others.iter().any(|other| {
            let theirs = other.profile.openwop_agent.as_ref();
            Some(other.number) != number && theirs.is_some_and(|it| it.overlaps(wanted))
        });
        if !taken {
            return Ok(());
        }
        Err(Problem::new(
            ErrorCode::Conflict,
            "another agent of the organization already has this `openwop_agent`, and a run is \
            evidence about only one agent; set another `openwop_agent`, or another version of it",
        )
        .with("field", "openwop_agent"))
    }

    async fn store_agent(
        &self,
        member: &Member,
        mut agent: AgentRecord,
    ) -> Result<AgentRecord, Problem> {
        agent.updated_at = self.clock.now();
        let stored = store::agents::change_agent(&self.store, member.organization.number, &agent);
        match stored.await {
            Ok(()) => Ok(agent),
            Err(StoreError::Exists(_)) => Err(name_taken()),
            Err(StoreError::Stale) => Err(changed_concurrently("agent")),
            Err(cause) => Err(internal(&cause)),
        }
    }
}

fn name_taken() -> Problem {
    Problem::new(
        ErrorCode::Conflict,
        "the organization already has an agent with this name; choose another `name`",
    )
    .with("field", "name")
}
