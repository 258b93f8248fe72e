//! A consistent copy of the embedded database, while hosts use it.

use std::io::{Error, ErrorKind};
use std::path::Path;

use crate::ports::store::StoreError;
use crate::store::convert::backend;
use crate::store::copies::reader;

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum NoSnapshot {
    #[error("the database cannot be read")]
    Unreadable(#[source] StoreError),
    #[error("the database is damaged")]
    Damaged(#[source] StoreError),
    #[error("the copy cannot be written")]
    Unwritten(#[source] StoreError),
}

/// Writes the database as of this moment to `to`, which must not exist. Writers are not blocked;
/// the write-ahead log grows meanwhile. The copy has no free pages, so it holds nothing that was
/// deleted before.
///
/// # Errors
/// See [`NoSnapshot`].
pub async fn snapshot(database: &Path, to: &Path) -> Result<(), NoSnapshot> {
    let to = to.to_str().ok_or_else(|| {
        let cause = Error::new(ErrorKind::InvalidInput, "the path is not UTF-8");
        NoSnapshot::Unwritten(backend(sqlx::Error::Io(cause)))
    })?;
    let source = reader(database).await.map_err(NoSnapshot::Unreadable)?;
    // Opening a file does not read it, and errors of the copy do not say which file they are about.
    let read = sqlx::query("SELECT count(*) FROM sqlite_schema").fetch_one(&source);
    let written = match read.await {
        Ok(_) => {
            let written = sqlx::query("VACUUM INTO $1").bind(to).execute(&source);
            written
                .await
                .map(drop)
                .map_err(|cause| match is_damage(&cause) {
                    true => NoSnapshot::Damaged(backend(cause)),
                    false => NoSnapshot::Unwritten(backend(cause)),
                })
        }
        Err(cause) if is_damage(&cause) => Err(NoSnapshot::Damaged(backend(cause))),
        Err(cause) => Err(NoSnapshot::Unreadable(backend(cause))),
    };
    source.close().await;
    written
}

/// Whether the file is not a database, or no longer one.
fn is_damage(cause: &sqlx::Error) -> bool {
    const CORRUPT: u32 = 11;
    const NOT_A_DATABASE: u32 = 26;

    let code = cause.as_database_error().and_then(|it| it.code());
    let code = code.and_then(|code| code.parse::<u32>().ok());
    // The low byte is the error code, the other bytes the extended code.
    matches!(code.map(|code| code & 0xff), Some(CORRUPT | NOT_A_DATABASE))
}
