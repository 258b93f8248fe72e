pub mod clerk;
pub mod examiner;
pub mod host;
pub mod recorder;
pub mod sse;
