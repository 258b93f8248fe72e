//! Agent cards: fetched, their signatures' keys with them, their agents asked, and scored.
//!
//! What is asked of whom is decided here and in [`crate::domain::card`]; a [`Prober`] makes the requests and keeps them from
//! going where they must not.

mod fetch;
mod history;
mod key_sets;
mod live;
mod rescoring;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use url::Url;

pub use fetch::{Fetched, Unfetched};
pub use history::{CardScores, MOST_HOURS, MOST_SHOWN, Subject};
pub use rescoring::Rescorer;

use crate::domain::card::live::{Observation, Plan};
use crate::domain::card::signature::{Keys, needed_key_sets};
use crate::domain::card::{self, Card, Live, Scorecard, web_url};
use crate::ports::{Certificates, Clock, Ids, Method, ProbeRequest, Prober, Wire};
use key_sets::KeySets;

/// How long a server may take to be connected to.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// How long one request may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Redirects that are followed, where any are.
const MAX_REDIRECTS: usize = 3;

/// Whom a look at a card bothers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// Nobody: not even keys are fetched.
    Nobody,
    /// The servers of key sets.
    KeySets,
    /// The agent and its provider, too.
    Agent,
}

/// Scores agent cards.
pub struct Cards {
    prober: Arc<dyn Prober>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    keys: Keys,
    key_sets: KeySets,
}

impl Cards {
    /// With what signatures are checked with before anything is fetched.
    pub fn new(
        prober: Arc<dyn Prober>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        keys: Keys,
    ) -> Self {
        Self {
            key_sets: KeySets::new(prober.clone()),
            prober,
            clock,
            ids,
            keys,
        }
    }

    /// Fetches the card at `url`, or of the agent at `url`.
    ///
    /// # Errors
    /// [`Unfetched`].
    pub async fn fetch(&self, url: &Url) -> Result<Fetched, Unfetched> {
        fetch::card(&*self.prober, url).await
    }

    /// Whether anybody may be asked at `url`, as far as its text says.
    ///
    /// # Errors
    /// [`Unfetched::Unusable`] or [`Unfetched::Refused`].
    pub fn admit(&self, url: &Url) -> Result<(), Unfetched> {
        if web_url::card_place(url.as_str()).is_none() {
            return Err(Unfetched::Unusable);
        }
        if self.prober.forbids(url) {
            return Err(Unfetched::Refused);
        }
        Ok(())
    }

    /// Scores a card.
    pub async fn score(&self, fetched: Fetched, asking: Asking) -> Scorecard {
        let mut keys = self.keys.clone();
        let mut seen = None;
        if asking != Asking::Nobody
            && let Ok(card) = fetched.parsed()
        {
            let needed = needed_key_sets(&card, &keys);
            let (key_sets, observation) = tokio::join!(
                self.key_sets.fetch(needed),
                self.observation(&card, asking, fetched.legacy_path)
            );
            keys.key_sets = key_sets;
            seen = observation;
        }
        let now = self.clock.now();
        // A card of a mebibyte takes a while.
        let scored = tokio::task::spawn_blocking(move || {
            let live = seen.as_ref().map_or(Live::Disabled, Live::Seen);
            let context = card::Context {
                now,
                keys: Some(&keys),
                live,
            };
            match fetched.octets {
                Some(octets) => card::score(&octets, &context),
                None => card::score_unparseable(card::Unparseable::TooLong, &context),
            }
        });
        match scored.await {
            Ok(scorecard) => scorecard,
            Err(fault) => std::panic::resume_unwind(fault.into_panic()),
        }
    }

    async fn observation(
        &self,
        card: &Card,
        asking: Asking,
        legacy_path: bool,
    ) -> Option<Observation> {
        if asking != Asking::Agent {
            return None;
        }
        let plan = Plan::of(card);
        Some(live::observe(&*self.prober, &*self.ids, &plan, legacy_path).await)
    }
}

/// A request within the common bounds.
fn request(method: Method, url: &Url, most: usize) -> ProbeRequest {
    ProbeRequest {
        method,
        url: url.clone(),
        headers: Vec::new(),
        body: Vec::new(),
        wire: Wire::Http1,
        certificates: Certificates::Verified,
        connect_within: CONNECT_WITHIN,
        within: ANSWER_WITHIN,
        most,
    }
}

/// The same with a JSON body.
fn posted(url: &Url, body: &Value, most: usize) -> ProbeRequest {
    ProbeRequest {
        headers: vec![
            ("content-type", "application/json".to_owned()),
            ("accept", "application/json".to_owned()),
        ],
        body: body.to_string().into_bytes(),
        ..request(Method::Post, url, most)
    }
}
