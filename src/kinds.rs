//! The evaluation kinds of this host.

use touchstone_oasis::rules::run::kind::OasisKind;
use touchstone_runs::rules::kind::Kinds;

/// Every kind that runs, suites and reports of this host may have.
pub const KINDS: Kinds = Kinds::new(&[&OasisKind]);
