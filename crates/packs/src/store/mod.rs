pub mod blobs;
pub mod inventory;
pub mod suites;

use touchstone_host::store::migrations::Schema;

pub const SCHEMA: Schema = Schema {
    feature: "packs",
    migrations: &[
        include_str!("schema.sql"),
        include_str!("suites/schema.sql"),
    ],
    leases: &[],
    secrets: &[],
    held: &[],
};
