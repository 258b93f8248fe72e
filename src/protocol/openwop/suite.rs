//! suite.
