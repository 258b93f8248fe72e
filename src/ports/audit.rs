//! The audit log of decisions.
