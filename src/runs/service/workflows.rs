//! The workflows of this host.

use crate::runs::fixtures;
use touchstone_deployments::rules::Lifecycle;
use touchstone_kit::ids::AgentId;
use touchstone_openwop::workflow::WorkflowDefinition;

/// The workflows that runs may name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Workflows {
    /// Whether the conformance fixtures are included.
    pub fixtures: bool,
}

impl Workflows {
    /// The deployments of an agent that comes with the workflows.
    pub fn deployed(self, agent: &AgentId) -> Option<Lifecycle> {
        self.fixtures.then(|| fixtures::deployed(agent)).flatten()
    }

    /// The definition with this id.
    pub fn definition(self, id: &str) -> Option<WorkflowDefinition> {
        self.fixtures.then(|| fixtures::fixture(id)).flatten()
    }
}
