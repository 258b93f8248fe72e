//! Content-addressed octets.

use async_trait::async_trait;
use bytes::Bytes;

use super::convert::backend;
use super::{PostgresStore, SqliteStore};
use crate::ports::{Blobs, StoreError};

const PUT: &str =
    "INSERT INTO blob (digest, octets) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING";
const GET: &str = "SELECT octets FROM blob WHERE digest = $1";

macro_rules! blobs {
    ($store:ty) => {
        #[async_trait]
        impl Blobs for $store {
            async fn put(&self, digest: &str, octets: &[u8]) -> Result<(), StoreError> {
                sqlx::query(PUT)
                    .bind(digest)
                    .bind(octets)
                    .execute(self.writer()?)
                    .await
                    .map_err(backend)?;
                Ok(())
            }

            async fn get(&self, digest: &str) -> Result<Option<Bytes>, StoreError> {
                let octets: Option<Vec<u8>> = sqlx::query_scalar(GET)
                    .bind(digest)
                    .fetch_optional(self.readers())
                    .await
                    .map_err(backend)?;
                Ok(octets.map(Bytes::from))
            }
        }
    };
}

blobs!(SqliteStore);
blobs!(PostgresStore);
