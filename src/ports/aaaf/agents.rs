//! Agents as they are enrolled.

use std::collections::HashMap;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{OrganizationNumber, Position};
use crate::domain::aaaf::agent::{Profile, Status};
use crate::domain::ids::KeyId;
use crate::ports::StoreError;

/// What the store calls an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AgentNumber(pub i64);

/// An agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentRecord {
    /// What the store calls it; given when it is added.
    pub number: AgentNumber,
    /// A UUID.
    pub id: String,
    /// What it is called.
    pub name: String,
    /// Whether it was archived: what is known of it stays, nothing is added.
    pub archived: bool,
    /// Whether nothing is recorded about it for the time being.
    pub suspended: bool,
    /// Whether anything was recorded about it, or it was assessed. Read only.
    pub observed: bool,
    /// What it says of itself.
    pub profile: Profile,
    /// When it was enrolled.
    pub created_at: Timestamp,
    /// When it was changed last.
    pub updated_at: Timestamp,
    /// Grows with every change.
    pub revision: i64,
}

impl AgentRecord {
    /// The principals that a key of it would have, in lower case.
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

    /// How far it is.
    pub const fn status(&self) -> Status {
        match (self.archived, self.suspended, self.observed) {
            (true, _, _) => Status::Archived,
            (false, true, _) => Status::Suspended,
            (false, false, true) => Status::Active,
            (false, false, false) => Status::Enrolled,
        }
    }

    /// Where a list goes on after this one.
    pub fn position(&self) -> Position {
        Position {
            created_at: self.created_at,
            id: self.id.clone(),
        }
    }
}

/// An agent that evidence names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// What the store calls it.
    pub number: AgentNumber,
    /// Whether nothing is recorded about it now: it was archived, or is suspended.
    pub closed: bool,
}

/// Agents of organizations.
#[async_trait]
pub trait Agents: Send + Sync {
    /// Adds one; [`StoreError::Exists`] if the organization has one of this name that is not archived.
    async fn add_agent(
        &self,
        organization: OrganizationNumber,
        agent: &AgentRecord,
    ) -> Result<(), StoreError>;
    /// The one of this id.
    async fn agent(
        &self,
        organization: OrganizationNumber,
        id: &str,
    ) -> Result<Option<AgentRecord>, StoreError>;
    /// Those after a position, in the order in which they were enrolled; those that are active include those of which nothing is
    /// known yet.
    async fn agents(
        &self,
        organization: OrganizationNumber,
        status: Option<Status>,
        after: Option<&Position>,
        limit: u32,
    ) -> Result<Vec<AgentRecord>, StoreError>;
    /// Those of these ids that there are, by id.
    async fn known_agents(
        &self,
        organization: OrganizationNumber,
        ids: &[&str],
    ) -> Result<HashMap<String, Known>, StoreError>;
    /// Whether an agent acts by this key or as this principal: one, archived or not, to which the key is assigned, or whose id,
    /// name, earlier name or OpenWOP agent the principal is, in upper or lower case.
    async fn is_agent(
        &self,
        organization: OrganizationNumber,
        principal: &str,
        key: &KeyId,
    ) -> Result<bool, StoreError>;
    /// Those that are not archived and stand for an OpenWOP agent of about this id: whoever asks looks closer.
    async fn agents_standing_for(
        &self,
        organization: OrganizationNumber,
        openwop_agent: &str,
    ) -> Result<Vec<AgentRecord>, StoreError>;
    /// Replaces what may change of one; its revision is that of the record that was read, [`StoreError::Stale`] if it has
    /// changed since, [`StoreError::Exists`] if another one has its new name.
    async fn change_agent(
        &self,
        organization: OrganizationNumber,
        agent: &AgentRecord,
    ) -> Result<(), StoreError>;
}
