pub mod packs;
pub mod registry;
pub mod suites;
