//! Major 2. Inside, the host speaks the form of major 1; these modules translate at its edge.

mod answer;
mod request;
#[cfg(test)]
mod sample;
mod translation;

pub use answer::{answer, run::Poll};
pub use request::{refusal, request};
pub use translation::{Context, Inner, Parts, Refusal, Unprojectable};
