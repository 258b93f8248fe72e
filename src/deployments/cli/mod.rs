pub mod attest;
pub mod deploy;
pub mod gate;
