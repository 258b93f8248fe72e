//! Scores of agent cards, through what the rules offer to the outside.

mod bounds;
mod corpus;
pub mod fixture;
mod live;
mod mutations;
mod rules;
mod signatures;
pub mod wire;
