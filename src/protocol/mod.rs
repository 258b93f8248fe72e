//! Wire documents.

pub use touchstone_kit::{error, json};
pub use touchstone_oasis::wire as oasis;
pub use touchstone_openwop::{in_toto, schema};

/// OpenWOP v1 documents.
pub mod openwop {
    pub use touchstone_openwop::{
        annotation, bundle, channel, deployment, diff, invocation, pack, run, suite, summary,
        workflow,
    };
    pub use touchstone_runs::events;
}
