//! What AAAF keeps.

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
use crate::store::convert::backend;

/// A refusal of the database, of which one is told apart: there is one of these already.
fn taken(cause: sqlx::Error, what: &'static str) -> StoreError {
    let refusal = cause.as_database_error();
    if refusal.is_some_and(|refusal| refusal.is_unique_violation()) {
        StoreError::Exists(what)
    } else {
        backend(cause)
    }
}
