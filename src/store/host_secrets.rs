//! The secrets a host makes for itself, the same for all replicas.

use async_trait::async_trait;

use super::convert::{backend, column};
use super::secrets::Cipher;
use super::{PostgresStore, SqliteStore};
use crate::domain::sealing::owner;
use crate::ports::{HostSecrets, StoreError};

const ADD_SECRET: &str =
    "INSERT INTO host_secret (name, secret) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
pub(super) const SECRET: &str = "SELECT secret FROM host_secret WHERE name = $1";
pub(super) const REPLACE_SECRET: &str =
    "UPDATE host_secret SET secret = $2 WHERE name = $1 AND secret = $3";
/// Bytes of a secret, as earlier versions stored them: in plaintext.
pub(super) const PLAIN_BYTES: usize = 32;

fn secret_of(cipher: &Cipher, name: &str, stored: Vec<u8>) -> Result<[u8; 32], StoreError> {
    let inconsistent = || column("host_secret", "secret").inconsistent();
    let text = String::from_utf8(stored).map_err(|_| inconsistent())?;
    let secret = cipher.open("host_secret", &owner::host_secret(name), &text)?;
    secret.try_into().map_err(|_| inconsistent())
}

macro_rules! host_secrets {
    ($store:ty) => {
        #[async_trait]
        impl HostSecrets for $store {
            async fn host_secret(
                &self,
                name: &str,
                fresh: [u8; 32],
            ) -> Result<[u8; 32], StoreError> {
                // Whoever asks with a token need not have one: that must not cost a write.
                let known: Option<Vec<u8>> = sqlx::query_scalar(SECRET)
                    .bind(name)
                    .fetch_optional(self.readers())
                    .await
                    .map_err(backend)?;
                let plain = match known {
                    Some(known) if known.len() != PLAIN_BYTES => {
                        return secret_of(self.cipher(), name, known);
                    }
                    plain => plain,
                };
                let sealed = self.cipher().seal(&owner::host_secret(name), &fresh)?;
                let query = match &plain {
                    // Copies of the database know it: it is replaced rather than encrypted.
                    Some(plain) => sqlx::query(REPLACE_SECRET)
                        .bind(name)
                        .bind(sealed.as_bytes())
                        .bind(plain),
                    None => sqlx::query(ADD_SECRET).bind(name).bind(sealed.as_bytes()),
                };
                query.execute(self.writer()?).await.map_err(backend)?;
                // Another replica may have been faster.
                let secret = sqlx::query_scalar(SECRET)
                    .bind(name)
                    .fetch_one(self.writer()?)
                    .await
                    .map_err(backend)?;
                secret_of(self.cipher(), name, secret)
            }
        }
    };
}

host_secrets!(SqliteStore);
host_secrets!(PostgresStore);
