//! The web console.

mod operations;
mod person;
mod ratings;
