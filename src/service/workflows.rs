//! Which workflows this host has.

use crate::domain::workflow::fixtures;
use crate::protocol::openwop::workflow::WorkflowDefinition;

/// The workflows runs may name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Workflows {
    /// Whether the fixtures of conformance suites are among them.
    pub fixtures: bool,
}

impl Workflows {
    /// The ids of the fixtures there are.
    pub fn fixture_ids(self) -> &'static [&'static str] {
        if self.fixtures { fixtures::IDS } else { &[] }
    }

    /// The definition of this id.
    pub fn definition(self, id: &str) -> Option<WorkflowDefinition> {
        self.fixtures.then(|| fixtures::fixture(id)).flatten()
    }
}
