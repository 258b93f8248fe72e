//! Where an agent answers.

use serde::{Deserialize, Serialize};

/// The provider of an agent that is a local command.
pub const COMMAND_PROVIDER: &str = "command";

/// An endpoint: its address and a digest of its configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointPin {
    /// Origin and path, without credentials and query; absent for a command, a script or a cassette.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// `sha256-<base64>` over the configuration without secrets, the command line, or the cassette.
    pub digest: String,
}
