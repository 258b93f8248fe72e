//! Organizations and their ratings (AAAF).

pub mod agents;
pub mod appeals;
pub mod assessments;
pub mod badges;
pub mod events;
pub mod notices;
pub mod organizations;
pub mod own_tasks;
pub mod profiles;
pub mod stress_tests;
pub mod upkeep;

use crate::ports::Position;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::migrations::Schema;

pub const SCHEMA: Schema = Schema {
    feature: "ratings",
    migrations: &[include_str!("schema.sql")],
};

/// Time and id after which a page starts; before all rows without a position.
fn page_start(after: Option<&Position>) -> (i64, &str) {
    after.map_or((i64::MIN, ""), |it| {
        (it.created_at.as_microsecond(), it.id.as_str())
    })
}

/// Turns a violated unique constraint into [`StoreError::Exists`].
fn map_unique_violation(cause: StoreError, what: &'static str) -> StoreError {
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
