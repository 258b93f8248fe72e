//! Ratings by the AI Agent Assessment Framework: vectors, the reference, properties of all
//! evidence, and the API.

pub mod api;
mod differential;
mod evidence;
mod properties;
mod rules;
mod vector;
mod vectors;
