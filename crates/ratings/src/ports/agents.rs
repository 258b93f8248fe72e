//! Store access to enrolled agents.

use jiff::Timestamp;

use crate::ports::Position;
use crate::rules::agent::{Profile, Status};

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
        let openwop_agent = self.profile.openwop_agent.as_ref();
        let named = [
            Some(&self.id),
            Some(&self.name),
            openwop_agent.map(|it| &it.id),
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
        Position::new(self.created_at, self.id.clone())
    }
}

/// The part of an agent that recording evidence needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownAgent {
    pub number: AgentNumber,
    /// Whether the agent accepts no evidence because it is archived or suspended.
    pub closed: bool,
}
