//! Stress tests (AAAF stress tests): the suites of the library and of organizations.

pub mod elsewhere;
pub mod library;
pub mod own_task;
