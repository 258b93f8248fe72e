//! Organizations and their ratings (AAAF).

mod agents;
mod appeals;
mod assessments;
mod badges;
mod events;
pub(in crate::store) mod notices;
mod organizations;
mod own_tasks;
mod profiles;
mod stress_tests;
mod upkeep;

use crate::ports::StoreError;
use crate::ports::aaaf::Position;

/// Time and id after which a page starts; before all rows without a position.
fn page_start(after: Option<&Position>) -> (i64, &str) {
    after.map_or((i64::MIN, ""), |it| {
        (it.created_at.as_microsecond(), it.id.as_str())
    })
}

/// Turns a violated unique constraint into [`StoreError::Exists`].
fn taken(cause: StoreError, what: &'static str) -> StoreError {
    let refusal = match &cause {
        StoreError::Backend(cause) => cause.downcast_ref::<sqlx::Error>(),
        _ => None,
    };
    let refusal = refusal.and_then(sqlx::Error::as_database_error);
    match refusal.is_some_and(|refusal| refusal.is_unique_violation()) {
        true => StoreError::Exists(what),
        false => cause,
    }
}
