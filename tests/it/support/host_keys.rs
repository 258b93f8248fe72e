//! Fixed encryption keys for tests.

use std::sync::Arc;

use touchstone_host::ports::host_keys::HostKeys;
use touchstone_host::ports::signing_key::NoSigningKey;
use touchstone_kit::sealing::HostKeyRing;

struct TestKeys(Arc<HostKeyRing>);

impl HostKeys for TestKeys {
    fn ring(&self) -> Result<Arc<HostKeyRing>, NoSigningKey> {
        Ok(self.0.clone())
    }
}

/// These keys, the current one first.
pub fn of(secrets: &[[u8; 32]]) -> Arc<dyn HostKeys> {
    Arc::new(TestKeys(Arc::new(HostKeyRing::of(secrets).unwrap())))
}

/// The key of all test hosts.
pub fn usual() -> Arc<dyn HostKeys> {
    of(&[[5; 32]])
}
