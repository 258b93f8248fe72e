//! Where packs come from.
