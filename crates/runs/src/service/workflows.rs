//! The workflows of this host.

use crate::fixtures;
use touchstone_openwop::workflow::WorkflowDefinition;

/// The workflows that runs may name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Workflows {
    /// Whether the conformance fixtures are included.
    pub fixtures: bool,
}

impl Workflows {
    /// The definition with this id.
    pub fn definition(self, id: &str) -> Option<WorkflowDefinition> {
        self.fixtures.then(|| fixtures::fixture(id)).flatten()
    }
}
