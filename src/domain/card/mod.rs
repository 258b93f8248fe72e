//! Scores of A2A agent cards in three dimensions, each by itself.
//!
//! Compliance says whether the card is what A2A 0.3.0 says a card is, trust how far its claims can be relied on, and
//! availability whether the agent behind it answers, if somebody asked it. The frame is CapiscIO's three-dimensional scoring
//! (October 2025). Everything here is a function of the card's octets and of what others have seen, fetched and configured
//! ([`Context`]): the same card gives the same [`Scorecard`], octet by octet.
//!
//! What has to be fetched first is told by [`signature::needed_key_sets`] and [`live::Plan`].

pub mod compliance;
pub mod document;
pub mod finding;
pub mod history;
pub mod host;
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
