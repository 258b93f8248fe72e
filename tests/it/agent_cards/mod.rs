//! Agent card scores, through the public interface of the rules.

mod bounds;
mod corpus;
pub mod fixture;
mod live;
mod mutations;
mod rules;
mod signatures;
pub mod wire;
