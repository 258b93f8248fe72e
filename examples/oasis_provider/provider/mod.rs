//! The provider: environments of a front desk, faults, and endpoints.

mod conformance;
mod desk;
mod faults;
mod house;
mod lies;
mod observed;
mod serve;

pub use conformance::Preflight;
pub use faults::Fault;
pub use house::{House, Options};
pub use serve::Served;
