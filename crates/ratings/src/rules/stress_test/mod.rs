//! Stress tests (AAAF stress tests): the suites of the library and of organizations.

pub mod library;
pub mod own_task;
pub mod stand_in;
