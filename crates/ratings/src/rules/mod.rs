//! Ratings on two axes by the AI Agent Assessment Framework (AAAF 1.0.0): performance, how well an
//! agent works, and capability, what it can do, based on recorded evidence events.
//!
//! Everything here is a pure function of events, configuration and overrides: the same input gives
//! the same bytes. [`evidence`] reads events, [`scoring`] measures twelve dimensions and combines
//! them into two axes, and [`score`] returns the result.

pub mod agent;
pub mod appeal;
pub mod assessment;
pub mod badge;
pub mod config;
pub mod evidence;
pub mod notice;
pub mod organization;
pub mod projection;
pub mod scoring;
pub mod standards;
pub mod stress_test;

pub use appeal::Override;
pub use assessment::{
    Assessment, Insufficient, Kind, Rating, Scored, Scoring, ScoringError, score,
};
pub use config::{Config, ConfigFault};
pub use evidence::Event;
pub use scoring::composite::AxisRating;
pub use scoring::dimension::{Axis, Dimension};
pub use scoring::measure::{Appealed, Details, Measure};
pub use scoring::tier::{Score, Tier};
