//! ports.
