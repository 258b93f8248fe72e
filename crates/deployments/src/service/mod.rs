pub mod attestations;
pub mod channels;
pub mod deployments;
pub mod gates;
