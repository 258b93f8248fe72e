//! The AI Agent Assessment Framework (AAAF 1.0.0).

pub mod badge;
