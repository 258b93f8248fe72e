//! Runs under major 2: what they call, wait for and are listed as.

mod calling;
mod effects;
mod fixtures;
mod interrupts;
mod list;
