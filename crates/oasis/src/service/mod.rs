pub mod evaluations;
pub mod gate;
pub mod library;
