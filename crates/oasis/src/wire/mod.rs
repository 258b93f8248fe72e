//! OASIS documents exchanged between this host and others.

pub mod provider;
mod reading;
