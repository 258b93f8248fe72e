pub mod attestations;
pub mod deployments;
pub mod gates;
pub mod history;
pub mod queries;
