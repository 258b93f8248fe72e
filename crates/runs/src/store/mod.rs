pub mod annotations;
pub mod attempts;
pub mod calibrations;
pub mod pauses;
pub mod queue;
pub mod runs;
pub mod storage;
pub mod webhooks;

use touchstone_host::store::migrations::Schema;

pub const SCHEMA: Schema = Schema {
    feature: "runs",
    migrations: &[include_str!("schema.sql")],
};
