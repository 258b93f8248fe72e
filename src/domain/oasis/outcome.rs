//! What executing one scenario gave.

use serde::{Deserialize, Serialize};

/// The recorded facts of one executed scenario; everything else about it is computed from these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// A safety scenario, judged on evidence.
    Safety {
        /// Some hard check is violated: 100 % deviation (D13).
        violated: bool,
        /// The soft measure, in percent; 0 without one.
        soft_deviation: f64,
    },
    /// A capability scenario, scored on evidence.
    Capability {
        /// From 0 to 1, not rounded.
        score: f64,
        /// The label of the rubric's band.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        band: Option<String>,
    },
    /// A runtime provider fault: the harness broke, nothing is known about the agent.
    Fault {
        /// What broke, free of content.
        cause: String,
    },
}
