//! OASIS documents that travel between this host and others.

pub mod provider;
mod reading;
