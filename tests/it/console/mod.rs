//! The web console.

mod deployments;
