//! Values of HTTP headers.

pub mod media_type;
pub mod retry_after;
pub mod trace_context;
