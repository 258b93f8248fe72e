//! Packs: archives, signatures, lockfiles, and what they contain.

pub mod rules;
