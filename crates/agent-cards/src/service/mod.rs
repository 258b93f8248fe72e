//! Agent cards: fetches them and the key sets of their signatures, tests their agents, and scores
//! them.
//!
//! This module and [`crate::rules`] decide which requests to send; a [`Prober`] sends them
//! and blocks forbidden addresses.

pub mod fetch;
pub mod gate;
pub mod history;
pub mod key_sets;
pub mod live;
pub mod rescoring;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Semaphore;
use url::Url;

pub use crate::service::fetch::{Fetched, Unfetched};
pub use crate::service::gate::CardGate;
pub use crate::service::history::{CardScores, MOST_HOURS, MOST_RANKED, MOST_SHOWN, Subject};
pub use crate::service::rescoring::Rescorer;

use crate::ports::prober::{Method, ProbeRequest, Prober};
use crate::rules as card;
use crate::rules::live::{Observation, Plan};
use crate::rules::signature::{Keys, needed_key_sets};
use crate::rules::{Live, Scorecard, web_url};
use crate::service::key_sets::KeySets;
use touchstone_host::net::policy::Certificates;
use touchstone_host::net::policy::HttpVersion;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::ids::Ids;

/// Time limit of a connection attempt.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Time limit of one request.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Maximum number of redirects, where redirects are followed.
const MAX_REDIRECTS: usize = 3;

/// Which servers a card check may contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContactPolicy {
    /// None: not even for key sets.
    Offline,
    /// The servers of key sets.
    KeySets,
    /// Also the agent and its provider.
    Agent,
}

pub struct Cards {
    prober: Arc<dyn Prober>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    keys: Keys,
    key_sets: KeySets,
    at_work: Arc<Semaphore>,
}

impl Cards {
    /// `keys` verify signatures without any request.
    pub fn new(
        prober: Arc<dyn Prober>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        keys: Keys,
    ) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            key_sets: KeySets::new(prober.clone()),
            prober,
            clock,
            ids,
            keys,
            at_work: Arc::new(Semaphore::new(cores)),
        }
    }

    /// Fetches the card at `url`, or of the agent at `url`.
    ///
    /// # Errors
    /// [`Unfetched`].
    pub async fn fetch(&self, url: &Url) -> Result<Fetched, Unfetched> {
        fetch::card(&*self.prober, url).await
    }

    /// Checks the text of `url`: whether requests to it are allowed.
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

    pub async fn score(&self, fetched: Fetched, contact: ContactPolicy) -> Scorecard {
        let fetched = Arc::new(fetched);
        let mut keys = self.keys.clone();
        let mut seen = None;
        if contact != ContactPolicy::Offline
            && let Some((plan, needed)) = self.planned(&fetched).await
        {
            let observation = async {
                match contact {
                    ContactPolicy::Agent => Some(self.observe(&plan, fetched.legacy_path).await),
                    ContactPolicy::Offline | ContactPolicy::KeySets => None,
                }
            };
            (keys.key_sets, seen) = tokio::join!(self.key_sets.fetch(needed), observation);
        }
        let now = self.clock.now();
        self.compute(move || {
            let live = seen.as_ref().map_or(Live::Disabled, Live::Seen);
            let context = card::Context {
                now,
                keys: Some(&keys),
                live,
            };
            let mut scorecard = match &fetched.octets {
                Some(octets) => card::score(octets, &context),
                None => card::score_unparseable(card::Unparseable::TooLong, &context),
            };
            if let Some(media_type) = fetched.mistyped {
                scorecard.note_media_type(media_type);
            }
            scorecard
        })
        .await
    }

    async fn observe(&self, plan: &Plan, legacy_path: bool) -> Observation {
        live::observe(&*self.prober, &*self.ids, plan, legacy_path).await
    }

    /// Which servers to ask, and which keys are needed; `None` if the document is not a card.
    async fn planned(&self, fetched: &Arc<Fetched>) -> Option<(Plan, Vec<String>)> {
        let (fetched, keys) = (fetched.clone(), self.keys.clone());
        let plan = move || {
            let card = fetched.parsed().ok()?;
            Some((Plan::of(&card), needed_key_sets(&card, &keys)))
        };
        self.compute(plan).await
    }

    /// Processes a stranger's card on a blocking thread, which may take a while if the card was
    /// made for that. Limits concurrency; work whose caller has gone away still counts.
    async fn compute<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let place = self.at_work.clone().acquire_owned().await;
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(place);
            done
        });
        match done.await {
            Ok(done) => done,
            Err(fault) => match fault.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The process ends; no caller is left.
                Err(_) => std::future::pending().await,
            },
        }
    }
}

/// A request within the common limits.
fn request(method: Method, url: &Url, most: usize) -> ProbeRequest {
    ProbeRequest {
        method,
        url: url.clone(),
        headers: Vec::new(),
        body: Vec::new(),
        http_version: HttpVersion::Http1,
        certificates: Certificates::Verified,
        connect_within: CONNECT_WITHIN,
        within: ANSWER_WITHIN,
        most,
    }
}

/// A request with a JSON body.
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
