//! The parameters of assertions that a judge decides; docs/judging.md defines them.

use serde::{Deserialize, Serialize};

/// The judge answers a question about the answer with yes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClosedQuestion {
    pub question: String,
}
