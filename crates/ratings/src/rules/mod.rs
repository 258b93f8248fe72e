//! Ratings on two axes by the AI Agent Assessment Framework (AAAF 1.0.0): performance, how well an
//! agent works, and capability, what it can do, based on recorded evidence events.
//!
//! Everything here is a pure function of events, configuration and overrides: the same input gives
//! the same bytes. The pipeline: [`evidence`] reads events, `selection` keeps those that count,
//! `task` folds them into task records, `performance` and `capability` measure twelve dimensions,
//! `composite` combines them into two axes, and [`score`] returns the result.

pub mod agent;
pub mod appeal;
pub mod assessment;
pub mod badge;
pub mod baseline;
pub mod calibration;
mod capability;
mod composite;
pub mod config;
mod digest;
pub mod dimension;
pub mod elsewhere;
pub mod evidence;
pub mod filing;
mod folded;
pub mod grader;
pub mod improvement;
pub mod interval;
pub mod library;
mod mean;
mod measure;
pub mod notice;
pub mod order;
pub mod organization;
pub mod overview;
pub mod own_task;
mod performance;
pub mod place;
pub mod projection;
pub mod reassess;
mod recency;
mod selection;
pub mod standards;
mod task;
pub mod tier;
pub mod validity;
pub mod weights;

pub use appeal::Override;
pub use assessment::{Assessment, Insufficient, Kind, Rating, Scored, Scoring, Unscored, score};
pub use composite::AxisRating;
pub use config::{Config, ConfigFault};
pub use dimension::{Axis, Dimension};
pub use evidence::Event;
pub use measure::{Appealed, Details, Measure};
pub use tier::{Score, Tier};
