mod agent_cards;
pub mod elsewhere;
mod enrollment;
mod stress_tests;
