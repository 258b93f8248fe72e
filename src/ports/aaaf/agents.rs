//! Store access to enrolled agents.

use std::collections::HashMap;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{OrganizationNumber, Position};
use crate::domain::aaaf::agent::{Profile, Status};
use crate::domain::ids::KeyId;
use crate::ports::StoreError;

/// The store's key of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AgentNumber(pub i64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentRecord {
    /// Assigned by the store when the agent is added.
    pub number: AgentNumber,
    pub id: String,
    pub name: String,
    /// An archived agent keeps its data and accepts no new evidence.
    pub archived: bool,
    /// A suspended agent accepts no new evidence.
    pub suspended: bool,
    /// Whether there is any evidence about the agent or any assessment of it. Read-only.
    pub observed: bool,
    pub profile: Profile,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Increases with every change; used for optimistic locking.
    pub revision: i64,
}

impl AgentRecord {
    /// The principals that a key of this agent could have, in lower case.
    pub fn principals(&self) -> Vec<String> {
        let stands_for = self.profile.openwop_agent.as_ref();
        let named = [
            Some(&self.id),
            Some(&self.name),
            stands_for.map(|it| &it.id),
        ];
        let named = named.into_iter().flatten();
        named.map(|it| it.to_ascii_lowercase()).collect()
    }

    pub const fn status(&self) -> Status {
        match (self.archived, self.suspended, self.observed) {
            (true, _, _) => Status::Archived,
            (false, true, _) => Status::Suspended,
            (false, false, true) => Status::Active,
            (false, false, false) => Status::Enrolled,
        }
    }

    /// The position of this record in a list.
    pub fn position(&self) -> Position {
        Position {
            created_at: self.created_at,
            id: self.id.clone(),
        }
    }
}

/// The part of an agent that recording evidence needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    pub number: AgentNumber,
    /// Whether the agent accepts no evidence because it is archived or suspended.
    pub closed: bool,
}

#[async_trait]
pub trait Agents: Send + Sync {
    /// Adds an agent; [`StoreError::Exists`] if the organization has an agent of this name that is
    /// not archived.
    async fn add_agent(
        &self,
        organization: OrganizationNumber,
        agent: &AgentRecord,
    ) -> Result<(), StoreError>;
    async fn agent(
        &self,
        organization: OrganizationNumber,
        id: &str,
    ) -> Result<Option<AgentRecord>, StoreError>;
    /// Agents after a position, in order of enrollment. `Status::Active` includes agents without any
    /// evidence.
    async fn agents(
        &self,
        organization: OrganizationNumber,
        status: Option<Status>,
        after: Option<&Position>,
        limit: u32,
    ) -> Result<Vec<AgentRecord>, StoreError>;
    /// The existing agents among these ids, by id.
    async fn known_agents(
        &self,
        organization: OrganizationNumber,
        ids: &[&str],
    ) -> Result<HashMap<String, Known>, StoreError>;
    /// Whether this key or principal belongs to an agent, archived ones included: the key is
    /// assigned to the agent, or the principal equals its id, name, a former name or its OpenWOP
    /// agent, ignoring case.
    async fn is_agent(
        &self,
        organization: OrganizationNumber,
        principal: &str,
        key: &KeyId,
    ) -> Result<bool, StoreError>;
    /// Agents that are not archived and may represent the OpenWOP agent of this id. The match is
    /// approximate; the caller compares further.
    async fn agents_standing_for(
        &self,
        organization: OrganizationNumber,
        openwop_agent: &str,
    ) -> Result<Vec<AgentRecord>, StoreError>;
    /// Updates an agent. `revision` is that of the record that was read: [`StoreError::Stale`] if
    /// the agent has changed since, [`StoreError::Exists`] if another agent has the new name.
    async fn change_agent(
        &self,
        organization: OrganizationNumber,
        agent: &AgentRecord,
    ) -> Result<(), StoreError>;
}
