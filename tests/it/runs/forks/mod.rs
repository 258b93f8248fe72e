pub mod fork;
mod reuse;
