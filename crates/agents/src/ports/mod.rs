pub mod agent;
pub mod assertions;
pub mod judge;
pub mod live_tools;
pub mod model;
