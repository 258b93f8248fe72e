//! Ratings by the AI Agent Assessment Framework: against vectors, against the reference, and what holds of every evidence; and over its
//! API.

pub mod api;
mod differential;
mod evidence;
mod properties;
mod rules;
mod vector;
mod vectors;
