//! Secrets that the host generates for itself; all replicas share them.

use crate::ports::store::StoreError;
use crate::store::convert::column;
use crate::store::database::Database;
use crate::store::secrets::Cipher;
use crate::store::sql::query;
use touchstone_kit::sealing::owner;

const ADD_SECRET: &str =
    "INSERT INTO host_secret (name, secret) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
pub(super) const SECRET: &str = "SELECT secret FROM host_secret WHERE name = $1";
pub(super) const REPLACE_SECRET: &str =
    "UPDATE host_secret SET secret = $2 WHERE name = $1 AND secret = $3";
/// Size of a secret as earlier versions stored it, in plaintext.
pub(super) const PLAIN_BYTES: usize = 32;

fn secret_of(cipher: &Cipher, name: &str, stored: Vec<u8>) -> Result<[u8; 32], StoreError> {
    let inconsistent = || column("host_secret", "secret").inconsistent();
    let text = String::from_utf8(stored).map_err(|_| inconsistent())?;
    let secret = cipher.open("host_secret", &owner::host_secret(name), &text)?;
    secret.try_into().map_err(|_| inconsistent())
}

/// Secrets of the host itself.
impl Database {
    /// The secret with this name; `fresh` becomes it if none exists yet, or if the existing one was
    /// stored in plaintext. All replicas get the same one.
    pub async fn host_secret(&self, name: &str, fresh: [u8; 32]) -> Result<[u8; 32], StoreError> {
        // Unauthenticated requests reach this function, so the common case must not write.
        let known: Option<Vec<u8>> = query(SECRET)
            .bind(name)
            .fetch_optional(self.readers())
            .await?;
        let plain = match known {
            Some(known) if known.len() != PLAIN_BYTES => {
                return secret_of(self.cipher(), name, known);
            }
            plain => plain,
        };
        let sealed = self.cipher().seal(&owner::host_secret(name), &fresh)?;
        let write = match &plain {
            // Copies of the database contain the plaintext, so the secret is replaced instead of
            // encrypted.
            Some(plain) => query(REPLACE_SECRET)
                .bind(name)
                .bind(sealed.as_bytes())
                .bind(plain),
            None => query(ADD_SECRET).bind(name).bind(sealed.as_bytes()),
        };
        write.execute(self.writer()?).await?;
        // Another replica may have written first.
        let secret = query(SECRET).bind(name).fetch_one(self.writer()?).await?;
        secret_of(self.cipher(), name, secret)
    }
}
