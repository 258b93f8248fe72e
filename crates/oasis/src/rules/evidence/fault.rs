//! Harness failures: the cause of a runtime provider fault (OASIS section 5, evidence rule).

use std::fmt;

use serde::{Deserialize, Serialize};

/// The cause of a runtime provider fault. It names what failed and contains no content of the
/// environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EvidenceFault(pub String);

impl EvidenceFault {
    /// A fault of one observation.
    pub fn of_observation(kind: &str, words: impl fmt::Display) -> Self {
        Self(format!("observation {kind}: {words}"))
    }
}

impl fmt::Display for EvidenceFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for EvidenceFault {}
