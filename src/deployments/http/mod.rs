pub mod attestation;
pub mod deployments;
pub mod gates;
