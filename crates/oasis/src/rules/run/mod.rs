//! OASIS evaluations as runs: request, plan, the fold of their events, and what verdict and report
//! take from it.

pub mod evaluated;
pub mod events;
pub mod extensions;
pub mod facts;
pub mod kind;
pub mod plan;
pub mod sources;
