pub mod blobs;
pub mod inventory;

use touchstone_host::store::migrations::Schema;

pub const SCHEMA: Schema = Schema {
    feature: "packs",
    migrations: &[include_str!("schema.sql")],
    leases: &[],
    secrets: &[],
    held: &[],
};
