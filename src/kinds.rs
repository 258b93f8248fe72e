//! The evaluation kinds of this host, and what they add to packs.

use touchstone_oasis::rules::pack::OasisPart;
use touchstone_oasis::rules::run::kind::OasisKind;
use touchstone_openwop::suite::{AgentEvalSuite, SuiteDocument, SuiteFault};
use touchstone_packs::rules::format::PackFormat;
use touchstone_runs::rules::eval::scoring_document::read::read_for;
use touchstone_runs::rules::eval::suite_rules;
use touchstone_runs::rules::kind::Kinds;

/// Every kind that runs, suites and reports of this host may have.
pub const KINDS: Kinds = Kinds::new(&[&OasisKind]);

/// The suites and files that packs of this host may contain.
pub const PACK_FORMAT: PackFormat = PackFormat {
    read_suite,
    read_scoring,
    parts: &[&OasisPart],
};

fn read_scoring(bytes: &[u8], suite: &AgentEvalSuite) -> Result<String, Vec<SuiteFault>> {
    read_for(bytes, suite).map(|read| read.canonical)
}

fn read_suite(bytes: &[u8]) -> Result<SuiteDocument, Vec<SuiteFault>> {
    suite_rules::read_suite(KINDS, bytes)
}
