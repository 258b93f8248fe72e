//! Carrying out runs: what is recorded, what a restart does, what goes wrong.

mod bench;
mod budgets;
mod compliance;
mod failures;
mod fork;
mod journal;
mod judging;
mod lease;
mod live;
mod outage;
mod pause;
mod resume;
mod reuse;
mod round_trip;
mod unreadable;
mod worker;
mod writer;
