//! The additions of other features to packs: the rules of suites, and further files.

use std::fmt;

use serde_json::{Map, Value};

use super::Refusal;
use super::contents::PackContents;
use crate::rules::build::Files;
use crate::rules::build::lint::Finding;
use touchstone_openwop::suite::{AgentEvalSuite, SuiteDocument, SuiteFault};

/// Parses a suite; fails with everything that is wrong with it.
pub type ReadSuite = fn(&[u8]) -> Result<SuiteDocument, Vec<SuiteFault>>;

/// Checks a suite of one task: a header of a suite that arrives as a stream, with one of its tasks.
/// Fails with everything that is wrong with it, and for tasks of evaluation kinds, which need their whole suite.
pub type ReadStreamed = fn(&Value) -> Result<AgentEvalSuite, Vec<SuiteFault>>;

/// Parses the scoring document of a suite and returns its canonical text, over which its digest is
/// computed; fails with everything that is wrong with it.
pub type ReadScoring = fn(&[u8], &AgentEvalSuite) -> Result<String, Vec<SuiteFault>>;

/// The files that another feature adds to packs.
pub trait PackPart: Send + Sync {
    /// The name of its member of a pack's facts.
    fn name(&self) -> &'static str;

    /// Checks its files of a pack. Returns its facts about the pack; `None` if it has none.
    ///
    /// # Errors
    /// The first rule that the pack violates.
    fn check(&self, pack: &PackContents) -> Result<Option<Map<String, Value>>, Refusal>;

    /// Everything that would keep the files of a folder from being used.
    fn lint(&self, files: &Files, read_suite: ReadSuite) -> Vec<Finding>;
}

/// The suites and files that packs of a host may contain, besides agents.
#[derive(Clone, Copy)]
pub struct PackFormat {
    pub read_suite: ReadSuite,
    pub read_streamed: ReadStreamed,
    pub read_scoring: ReadScoring,
    pub parts: &'static [&'static dyn PackPart],
}

impl fmt::Debug for PackFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.parts.iter().map(|part| part.name()))
            .finish()
    }
}
