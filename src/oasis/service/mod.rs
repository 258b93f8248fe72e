pub mod evaluations;
pub mod gate;
