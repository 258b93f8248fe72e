//! Pause requests for runs.

use crate::ports::pauses::PauseRequest;
use touchstone_host::ports::run_log::Fence;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::convert::column;
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::query;
use touchstone_kit::ids::RunId;

const PAUSE: &str = "UPDATE run SET pause = $2,
    lease_until = CASE WHEN lease_owner IS NULL THEN 0 ELSE lease_until END
    WHERE run_id = $1 AND NOT ended AND pause IS NULL";
const PAUSE_REQUESTED: &str = "SELECT pause FROM run WHERE run_id = $1";
const TAKE_PAUSE: &str = "UPDATE run SET pause_taken = TRUE
    WHERE run_id = $1 AND fence = $2 AND pause IS NOT NULL RETURNING pause";
const WITHDRAW_PAUSE: &str = "UPDATE run SET pause = NULL
    WHERE run_id = $1 AND pause IS NOT NULL AND NOT pause_taken";
pub const END_PAUSE: &str = "UPDATE run SET pause = NULL, pause_taken = FALSE WHERE run_id = $1";

/// Records a pause request for an unfinished run; a parked run may then be claimed at once.
/// `false` if there is one already, or the run has ended.
pub async fn request_pause(
    database: &Database,
    run: &RunId,
    request: &PauseRequest,
) -> Result<bool, StoreError> {
    let recorded = query(PAUSE)
        .bind(run.as_str())
        .bind(column("run", "pause").text(request)?)
        .execute(database.writer()?)
        .await?;
    let news = recorded > 0;
    if news {
        database.signal_cancel(run);
    }
    Ok(news)
}

/// The recorded pause request of a run.
pub async fn pause_requested(
    database: &Database,
    run: &RunId,
) -> Result<Option<PauseRequest>, StoreError> {
    let pause: Option<Option<String>> = query(PAUSE_REQUESTED)
        .bind(run.as_str())
        .fetch_optional(database.readers())
        .await?;
    let pause = pause.flatten();
    pause
        .as_deref()
        .map(|text| column("run", "pause").document(text))
        .transpose()
}

/// Puts the recorded request into force, for the holder of the run; afterwards it cannot be
/// withdrawn. `None` without a request, or if another process holds the run by now.
pub async fn take_pause(
    database: &Database,
    run: &RunId,
    fence: Fence,
) -> Result<Option<PauseRequest>, StoreError> {
    let pause: Option<String> = query(TAKE_PAUSE)
        .bind(run.as_str())
        .bind(fence.0)
        .fetch_all(database.writer()?)
        .await?
        .pop();
    pause
        .as_deref()
        .map(|text| column("run", "pause").document(text))
        .transpose()
}

/// Withdraws a request. `false` without a request, or if it is in force.
pub async fn withdraw_pause(database: &Database, run: &RunId) -> Result<bool, StoreError> {
    let withdrawn = query(WITHDRAW_PAUSE)
        .bind(run.as_str())
        .execute(database.writer()?)
        .await?;
    let news = withdrawn > 0;
    if news {
        database.signal_cancel(run);
    }
    Ok(news)
}
