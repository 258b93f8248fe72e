//! The evaluation kinds of this host, and what they add to packs.

use serde_json::Value;

use touchstone_oasis::rules::pack::OasisPart;
use touchstone_oasis::rules::run::kind::OasisKind;
use touchstone_openwop::suite::{AgentEvalSuite, SuiteDocument, SuiteFault, Task};
use touchstone_packs::rules::format::PackFormat;
use touchstone_runs::rules::eval::scoring_document::read::read_for;
use touchstone_runs::rules::eval::suite_rules;
use touchstone_runs::rules::kind::Kinds;

/// Every kind that runs, suites and reports of this host may have.
pub const KINDS: Kinds = Kinds::new(&[&OasisKind]);

/// The suites and files that packs of this host may contain.
pub const PACK_FORMAT: PackFormat = PackFormat {
    read_suite,
    read_streamed,
    read_scoring,
    parts: &[&OasisPart],
};

fn read_scoring(bytes: &[u8], suite: &AgentEvalSuite) -> Result<String, Vec<SuiteFault>> {
    read_for(bytes, suite).map(|read| read.canonical)
}

fn read_streamed(suite: &Value) -> Result<AgentEvalSuite, Vec<SuiteFault>> {
    let read = suite_rules::check_suite(KINDS, suite)?;
    let of_kind = |task: &Task| KINDS.iter().any(|kind| kind.is_expectation_of(task));
    match read.tasks.iter().position(of_kind) {
        None => Ok(read),
        Some(at) => Err(vec![SuiteFault::new(
            format!("/tasks/{at}"),
            "is a scenario of an evaluation that is not a plain suite; import the whole document as `application/json`",
        )]),
    }
}

fn read_suite(bytes: &[u8]) -> Result<SuiteDocument, Vec<SuiteFault>> {
    suite_rules::read_suite(KINDS, bytes)
}
