//! The keys that secrets at rest are encrypted with.

use std::sync::Arc;

use super::NoSigningKey;
use crate::domain::sealing::HostKeyRing;

/// Where the keys of this host are.
pub trait HostKeys: Send + Sync {
    /// The keys in force. A rotation by another process takes effect at the next call.
    ///
    /// # Errors
    /// [`NoSigningKey`].
    fn ring(&self) -> Result<Arc<HostKeyRing>, NoSigningKey>;
}
