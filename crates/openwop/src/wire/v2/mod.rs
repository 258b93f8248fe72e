//! Major 2. Inside, the host speaks the form of major 1; these modules translate at its edge.

mod answer;
pub mod event;
pub mod names;
pub mod payload;
mod request;
pub mod subject;
mod translation;

pub use answer::{answer, run::Poll};
pub use request::{MAX_PAGE, refusal, request};
pub use translation::{Context, Inner, Refusal, Unprojectable};
