//! The secrets a host makes for itself, the same for all replicas.

use async_trait::async_trait;

use super::convert::{backend, column};
use super::{PostgresStore, SqliteStore};
use crate::ports::{HostSecrets, StoreError};

const ADD_SECRET: &str =
    "INSERT INTO host_secret (name, secret) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
const SECRET: &str = "SELECT secret FROM host_secret WHERE name = $1";

fn secret_of(octets: Vec<u8>) -> Result<[u8; 32], StoreError> {
    octets
        .try_into()
        .map_err(|_| column("host_secret", "secret").inconsistent())
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
                if let Some(known) = known {
                    return secret_of(known);
                }
                sqlx::query(ADD_SECRET)
                    .bind(name)
                    .bind(&fresh[..])
                    .execute(self.writer()?)
                    .await
                    .map_err(backend)?;
                // Another replica may have been faster.
                let secret = sqlx::query_scalar(SECRET)
                    .bind(name)
                    .fetch_one(self.writer()?)
                    .await
                    .map_err(backend)?;
                secret_of(secret)
            }
        }
    };
}

host_secrets!(SqliteStore);
host_secrets!(PostgresStore);
