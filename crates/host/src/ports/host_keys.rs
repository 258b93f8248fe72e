//! The keys that encrypt secrets at rest.

use std::sync::Arc;

use crate::ports::signing_key::NoSigningKey;
use touchstone_kit::sealing::HostKeyRing;

/// Access to this host's keys.
pub trait HostKeys: Send + Sync {
    /// The current keys. A rotation by another process takes effect at the next call.
    ///
    /// # Errors
    /// [`NoSigningKey`].
    fn ring(&self) -> Result<Arc<HostKeyRing>, NoSigningKey>;
}
