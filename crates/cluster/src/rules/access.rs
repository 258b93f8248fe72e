//! Who may do what in the cluster.

pub mod permissions;
pub mod pools;
pub mod rights;
