//! Small deterministic workflows: what a definition means, and what a run of one does next.
//!
//! A workflow is a graph of typed nodes without cycles ([`graph`]). Its run is a log like any other; [`facts`] is what the log
//! says of the nodes, and [`step`] decides from graph, facts and time what is to be recorded next. Nothing here performs
//! anything: delays and interrupts are waits, which hold neither a thread nor a slot.

pub mod facts;
pub mod fixtures;
pub mod gate;
pub mod graph;
pub mod interrupt;
pub mod mock;
pub mod node;
pub mod step;
pub mod token;
