//! The database of a host: the tables of all features.

use std::sync::Arc;

use touchstone_host::ports::host_keys::HostKeys;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_host::store::migrations::Schema;

/// The tables of all features, in the order of their dependencies.
pub const SCHEMAS: [Schema; 5] = [
    touchstone_packs::store::SCHEMA,
    touchstone_runs::store::SCHEMA,
    touchstone_deployments::store::SCHEMA,
    touchstone_ratings::store::SCHEMA,
    touchstone_agent_cards::store::SCHEMA,
];

/// Opens the database at `location`, as [`touchstone_host::store::open`] describes.
///
/// # Errors
/// [`StoreError::Backend`] if the database cannot be reached, opened or migrated.
pub async fn open(location: &str, keys: Arc<dyn HostKeys>) -> Result<Arc<Database>, StoreError> {
    touchstone_host::store::open(location, keys, &SCHEMAS).await
}
