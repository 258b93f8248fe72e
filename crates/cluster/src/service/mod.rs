//! Owners of runs, and workers.

mod assignment;
mod attempt;
pub mod owner;
mod server;
pub mod worker;

#[cfg(test)]
pub(crate) mod tests;
