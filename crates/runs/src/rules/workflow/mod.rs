//! Small deterministic workflows: the meaning of a definition, and the next step of a run.
//!
//! A workflow is an acyclic graph of typed nodes ([`graph`]). Its run has an event log like every
//! run; [`facts`] folds the log into the state of the nodes, and [`step`] decides from graph, facts
//! and time which events to record next. This module performs no IO: delays and interrupts are
//! waits, which occupy neither a thread nor a slot.

pub mod facts;
pub mod gate;
pub mod graph;
pub mod interrupt;
pub mod mock;
pub mod node;
pub mod step;
pub mod token;
