//! What the two-minute demo evaluates: a pack that is compiled in, and a stand-in for a model.
//!
//! The demo itself takes the real path only and is told by [`crate::cli`]; nothing here knows the host.

pub mod pack;
pub mod standin;
