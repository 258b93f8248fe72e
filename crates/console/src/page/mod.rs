//! What every page uses.

pub mod answer;
pub mod assets;
pub mod badge;
pub mod choice;
pub mod chrome;
pub mod error;
pub mod form;
pub mod home;
pub mod period;
pub mod text;
pub mod visit;
