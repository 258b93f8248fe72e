//! The web console.

mod compare;
mod live;
mod runs;
mod visitor;
