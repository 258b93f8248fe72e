pub mod compare;
pub mod eval;
pub mod judge;
pub mod progress;
pub mod run;
pub mod tape;
pub mod watch;
pub mod webhook;
