//! The two-minute demo.
