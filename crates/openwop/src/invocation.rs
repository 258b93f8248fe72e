//! How agent invocations end (RFC 0077).

use serde::{Deserialize, Serialize};

/// How an invocation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InvocationOutcome {
    /// A decision was reached.
    Completed,
    /// The model refused.
    Refused,
    /// The invocation failed, because of the agent or the infrastructure.
    Failed,
}
