//! Parts of requests and replies that several wires share.

pub mod arguments;
pub mod messages;
pub mod reported;
pub mod tool_names;
pub mod tool_schema;
