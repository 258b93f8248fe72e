//! events.
