mod corrections;
mod events;
pub mod profiles;
mod records;
pub mod sources;
