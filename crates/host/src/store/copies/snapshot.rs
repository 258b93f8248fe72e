//! A consistent copy of the embedded database, while hosts use it.

use std::io::{Error, ErrorKind};
use std::path::Path;

use crate::ports::store::StoreError;
use crate::store::convert::backend;
use crate::store::copies::reader;

/// Writes the database as of this moment to `to`, which must not exist. Writers are not blocked;
/// the write-ahead log grows meanwhile. The copy has no free pages, so it holds nothing that was
/// deleted before.
///
/// # Errors
/// The database cannot be read, or the copy cannot be written.
pub async fn snapshot(database: &Path, to: &Path) -> Result<(), StoreError> {
    let to = to.to_str().ok_or_else(|| {
        let cause = Error::new(ErrorKind::InvalidInput, "the path is not UTF-8");
        backend(sqlx::Error::Io(cause))
    })?;
    let source = reader(database).await?;
    let written = sqlx::query("VACUUM INTO $1").bind(to).execute(&source);
    let written = written.await.map_err(backend);
    source.close().await;
    written.map(drop)
}
