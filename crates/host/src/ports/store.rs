//! The store as a whole: its errors, and all its ports as one trait.

use crate::ports::signing_key::NoSigningKey;
use touchstone_kit::ids::RunId;
use touchstone_kit::sealing::Sealed;

/// Why a store operation failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The lease was lost: another replica owns the run now. The caller stops; its unwritten
    /// results are void.
    #[error("the lease on this run was lost")]
    Fenced,
    /// The record was changed since it was read. Read it and decide again.
    #[error("the record has changed since it was read")]
    Stale,
    /// A record with this identity already exists.
    #[error("{0} already exists")]
    Exists(&'static str),
    /// This run of the same scope is active, and the new one was to be the only one.
    #[error("another run of this scope is active")]
    ScopeTaken(RunId),
    /// The database cannot be reached, is too busy or accepts no writes: the same request may
    /// succeed a little later.
    #[error("the database is unavailable")]
    Unavailable(#[source] Outage),
    /// The database refused; the cause chain goes to the log only.
    #[error("the store failed")]
    Backend(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The key that encrypts secrets cannot be read or created.
    #[error("the host key cannot be used")]
    HostKey(#[source] NoSigningKey),
    /// A stored secret that this host's key does not decrypt.
    #[error("a secret in table {table} cannot be decrypted with this host's key")]
    Undecryptable { table: &'static str, source: Sealed },
    /// A row that this program cannot have written.
    #[error("inconsistent row in {table}, column {column}")]
    Inconsistent {
        table: &'static str,
        column: &'static str,
    },
}

/// Why the database is unavailable. A separate type, so that it can be found in any chain of
/// causes.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Outage(pub Box<dyn std::error::Error + Send + Sync>);

/// A string that the database cannot store. A separate type, so that it can be found in any chain
/// of causes.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("a string contains the character U+0000")]
pub struct Unstorable;
