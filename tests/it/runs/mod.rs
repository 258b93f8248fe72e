//! Execution of runs: recorded events, restarts and failures.

mod bench;
mod budgets;
mod compliance;
mod failures;
mod forks;
mod jobs;
mod judging;
mod live;
mod log;
mod recovery;
mod worker;
