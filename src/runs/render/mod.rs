pub mod comparison;
pub mod diff;
pub mod flips;
pub mod github;
pub mod junit;
pub mod live;
pub mod markdown;
#[cfg(test)]
mod sample;
pub mod scorecard;
pub mod statistics;
