//! OASIS evaluations as runs: the fold of their events, and what verdict and report take from it.

pub mod evaluated;
pub mod extensions;
pub mod facts;
pub mod sources;
