//! Content-addressed bytes.


