pub mod packs;
pub mod publications;
