//! Where the invocations of a run are executed.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// By the host that executes the run.
    #[default]
    Local,
    /// By workers.
    Cluster,
}

impl Distribution {
    /// The value with this wire name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "local" => Some(Self::Local),
            "cluster" => Some(Self::Cluster),
            _ => None,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Cluster => "cluster",
        }
    }
}
