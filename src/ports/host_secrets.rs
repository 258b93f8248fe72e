//! The secrets a host makes for itself, and the encryption of all secrets it keeps.

use async_trait::async_trait;

use super::StoreError;

/// The secret that tokens of interrupts are signed with. Every host has one from its first start on, so that a host with
/// another key than the database's notices it at once.
pub const INTERRUPT_TOKENS: &str = "interrupt-tokens";

/// The secret that keys the digests of idempotent requests. A rotation of the host's key keeps it: the digests cannot be
/// made again, and a request that is repeated must still be recognised.
pub const IDEMPOTENCY_DIGESTS: &str = "idempotency-digests";

/// The secret of the key that checkpoints of the audit log are signed with. A rotation of the host's key keeps it, so that
/// every checkpoint verifies under the key that the host advertises.
pub const AUDIT_CHECKPOINTS: &str = "audit-checkpoints";

/// Secrets of the host itself.
#[async_trait]
pub trait HostSecrets: Send + Sync {
    /// The secret of this name; `fresh` becomes it if there is none yet, or if the one there was stored in plaintext. All
    /// replicas get the same one.
    async fn host_secret(&self, name: &str, fresh: [u8; 32]) -> Result<[u8; 32], StoreError>;
}

/// Which of the stored secrets are encrypted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reencrypt {
    /// Those an earlier version stored in plaintext, or under a key that it kept in the database.
    Plaintext,
    /// Those that are not encrypted with the current key.
    All,
}

/// Secrets as they are stored: encrypted with the host's key, which the database does not hold.
#[async_trait]
pub trait SecretsAtRest: Send + Sync {
    /// Encrypts stored secrets with the current key and answers how many rows it rewrote. Rows that others change meanwhile
    /// are left to the next pass. Under [`Reencrypt::All`], secrets of the host itself are replaced by new ones, except
    /// [`IDEMPOTENCY_DIGESTS`] and [`AUDIT_CHECKPOINTS`].
    ///
    /// # Errors
    /// [`StoreError::Undecryptable`] for a secret that no key of the host decrypts.
    async fn reencrypt(&self, which: Reencrypt) -> Result<u64, StoreError>;
}
