pub mod clock;
pub mod host_keys;
pub mod host_secrets;
pub mod idempotency;
pub mod ids;
pub mod keys;
pub mod signing_key;
pub mod store;
