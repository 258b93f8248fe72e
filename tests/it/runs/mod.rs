//! Execution of runs: recorded events, restarts and failures.

mod bench;
mod budgets;
mod compliance;
mod failures;
mod fork;
mod jobs;
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
