//! Which workflows this host has.

use crate::domain::deployment::Lifecycle;
use crate::domain::ids::AgentId;
use crate::domain::workflow::fixtures;
use crate::protocol::openwop::workflow::WorkflowDefinition;

/// The workflows runs may name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Workflows {
    /// Whether the fixtures of conformance suites are among them.
    pub fixtures: bool,
}

impl Workflows {
    /// Where the versions of an agent stand that comes with the workflows.
    pub fn deployed(self, agent: &AgentId) -> Option<Lifecycle> {
        self.fixtures.then(|| fixtures::deployed(agent)).flatten()
    }

    /// The definition of this id.
    pub fn definition(self, id: &str) -> Option<WorkflowDefinition> {
        self.fixtures.then(|| fixtures::fixture(id)).flatten()
    }
}
