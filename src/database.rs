//! The database of a host: the tables of all features.

use std::sync::Arc;

use crate::host::ports::host_keys::HostKeys;
use crate::host::ports::store::StoreError;
use crate::host::store::database::Database;
use crate::host::store::migrations::Schema;
use crate::{agent_cards, deployments, host, packs, ratings, runs};

/// The tables of all features, in the order of their dependencies.
pub const SCHEMAS: [Schema; 5] = [
    packs::store::SCHEMA,
    runs::store::SCHEMA,
    deployments::store::SCHEMA,
    ratings::store::SCHEMA,
    agent_cards::store::SCHEMA,
];

/// Opens the database at `location`, as [`host::store::open`] describes.
///
/// # Errors
/// [`StoreError::Backend`] if the database cannot be reached, opened or migrated.
pub async fn open(location: &str, keys: Arc<dyn HostKeys>) -> Result<Arc<Database>, StoreError> {
    host::store::open(location, keys, &SCHEMAS).await
}
