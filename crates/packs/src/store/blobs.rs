//! Content-addressed blobs.

use bytes::Bytes;

use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::query;

const PUT: &str =
    "INSERT INTO blob (digest, octets) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING";
const GET: &str = "SELECT octets FROM blob WHERE digest = $1";

/// Stores `octets` under `digest` (`sha256-<base64>`); storing the same bytes again is not an
/// error.
pub async fn put(database: &Database, digest: &str, octets: &[u8]) -> Result<(), StoreError> {
    query(PUT)
        .bind(digest)
        .bind(octets)
        .execute(database.writer()?)
        .await?;
    Ok(())
}

pub async fn get(database: &Database, digest: &str) -> Result<Option<Bytes>, StoreError> {
    let octets: Option<Vec<u8>> = query(GET)
        .bind(digest)
        .fetch_optional(database.readers())
        .await?;
    Ok(octets.map(Bytes::from))
}
