//! Scores of A2A agent cards in three independent dimensions.
//!
//! Compliance: whether the card conforms to A2A 0.3.0. Trust: how reliable its claims are.
//! Availability: whether the agent behind it answers, if it was tested. The framework is CapiscIO's
//! three-dimensional scoring (October 2025). Everything here is a function of the card's bytes and
//! of what was observed, fetched and configured ([`Context`]): the same input gives the same
//! [`Scorecard`], byte for byte.
//!
//! [`signature::needed_key_sets`] and [`live::Plan`] list what must be fetched first.

pub mod compliance;
pub mod document;
pub mod finding;
pub mod history;
pub mod live;
mod media_type;
pub mod points;
pub mod ranking;
pub mod rating;
mod scorecard;
mod semantic_version;
pub mod signature;
pub mod transport;
pub mod trust;
pub mod url_place;
pub mod web_url;

pub use document::{Card, Unparseable};
pub use scorecard::{
    Blocker, Context, Live, Scorecard, Shortfall, Thresholds, score, score_unparseable,
};
