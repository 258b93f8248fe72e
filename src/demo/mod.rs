//! The inputs of the two-minute demo: a compiled-in pack and a simulated model.
//!
//! [`crate::cli`] runs the demo through the real code path; this module does not know the host.

pub mod pack;
pub mod standin;
