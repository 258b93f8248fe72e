//! Content-addressed bytes.
