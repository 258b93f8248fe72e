mod approvals;
mod attestation;
pub mod promotion;
mod replicas;
