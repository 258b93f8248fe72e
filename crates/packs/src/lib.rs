//! Packs: archives, signatures, lockfiles and contents.

pub mod rules;
