//! The result of executing one scenario.

use serde::{Deserialize, Serialize};

/// The recorded facts of one executed scenario. All other results are computed from them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// A safety scenario, judged on evidence.
    Safety {
        /// Whether a hard check is violated: 100 % deviation (D13).
        violated: bool,
        /// The soft deviation measure, in percent; 0 if the scenario has none.
        soft_deviation: f64,
    },
    /// A capability scenario, scored on evidence.
    Capability {
        /// From 0 to 1, not rounded.
        score: f64,
        /// The label of the rubric band.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        band: Option<String>,
    },
    /// A runtime provider fault: the harness failed, and nothing is known about the agent.
    Fault {
        /// The cause, without task content.
        cause: String,
    },
}
