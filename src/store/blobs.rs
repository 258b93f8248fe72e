//! Content-addressed blobs.

use async_trait::async_trait;
use bytes::Bytes;

use super::Database;
use super::sql::query;
use crate::ports::{Blobs, StoreError};

const PUT: &str =
    "INSERT INTO blob (digest, octets) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING";
const GET: &str = "SELECT octets FROM blob WHERE digest = $1";

#[async_trait]
impl Blobs for Database {
    async fn put(&self, digest: &str, octets: &[u8]) -> Result<(), StoreError> {
        query(PUT)
            .bind(digest)
            .bind(octets)
            .execute(self.writer()?)
            .await?;
        Ok(())
    }

    async fn get(&self, digest: &str) -> Result<Option<Bytes>, StoreError> {
        let octets: Option<Vec<u8>> = query(GET)
            .bind(digest)
            .fetch_optional(self.readers())
            .await?;
        Ok(octets.map(Bytes::from))
    }
}
