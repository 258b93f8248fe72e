//! The history of card scores, and alerts when they drop.

use std::sync::Arc;

use futures_util::{FutureExt as _, TryStreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use url::Url;

use crate::ports::watches::{CardWatch, DueCard, WatchNotice};
use crate::rules::Scorecard;
use crate::rules::history::{AlertBelow, CardScoring, Scores, alerts, rating_drops};
use crate::rules::ranking::{Ranking, Weights};
use crate::service::fetch::{Fetched, Unfetched};
use crate::service::{Cards, ContactPolicy};
use crate::store;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::ids::Ids;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_host::store::database::Database;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::hex::hex;
use touchstone_kit::ids::TenantId;
use touchstone_ratings::rules::notice::{Notice, Topic};
use touchstone_ratings::store as rating_store;

/// Concurrent card checks that send requests to others.
const AT_ONCE: usize = 16;
/// Cards of one ranking that are fetched and scored concurrently: a single request must leave
/// capacity for others.
const RANKED_AT_ONCE: usize = 4;
/// Maximum number of cards one tenant watches.
const MOST_WATCHED: u32 = 100;
/// When to check a card again whose last result could not be stored.
const AGAIN: SignedDuration = SignedDuration::from_mins(10);
/// Maximum number of history entries in a response.
pub const MOST_SHOWN: u32 = 100;
/// Maximum number of cards in one ranking.
pub const MOST_RANKED: usize = 10;
/// Longest interval of a watch, in hours.
pub const MOST_HOURS: u32 = 24 * 90;

/// A card itself, or its URL.
#[derive(Debug)]
pub enum Subject {
    AtHand(Vec<u8>),
    At(Url),
}

pub struct CardScores {
    cards: Arc<Cards>,
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    places: Semaphore,
}

impl CardScores {
    pub fn new(
        cards: Arc<Cards>,
        store: Arc<Database>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Self {
        Self {
            cards,
            store,
            clock,
            ids,
            places: Semaphore::new(AT_ONCE),
        }
    }

    /// Scores a card. The score of a card at a URL becomes part of its history.
    ///
    /// # Errors
    /// `validation_error` for a URL that may not be requested, `agent_card_unreachable` if there is
    /// no card, `rate_limited` while too many card checks are in progress.
    pub async fn score(
        &self,
        caller: &Caller,
        subject: Subject,
        contact: ContactPolicy,
    ) -> Result<Scorecard, Problem> {
        let _place = match (&subject, contact) {
            (Subject::AtHand(_), ContactPolicy::Offline) => None,
            _ => Some(self.places.try_acquire().map_err(|_| {
                Problem::new(
                    ErrorCode::RateLimited,
                    "too many agent card checks are in progress; try again in a moment",
                )
            })?),
        };
        let url = match subject {
            Subject::AtHand(octets) => {
                return Ok(self.cards.score(Fetched::at_hand(octets), contact).await);
            }
            Subject::At(url) => url,
        };
        let fetched = match self.cards.fetch(&url).await {
            Ok(fetched) => fetched,
            Err(fault) => {
                // A card that has disappeared is worth recording, for gates as well. A URL that may
                // not be requested says nothing.
                if fault.is_seen() {
                    self.keep(&caller.tenant, &self.missing(&url, contact, &fault))
                        .await
                        .map_err(|cause| internal(&cause))?;
                }
                return Err(unfetched(&fault));
            }
        };
        let (scorecard, scoring) = self.score_fetched(&url, fetched, contact).await;
        self.keep(&caller.tenant, &scoring)
            .await
            .map_err(|cause| internal(&cause))?;
        Ok(scorecard)
    }

    /// Scores cards, each as [`Self::score`] does, and ranks them. A card that cannot be fetched,
    /// or whose URL may not be requested, has no rank.
    ///
    /// # Errors
    /// As [`Self::score`], except `validation_error` and `agent_card_unreachable`.
    pub async fn rank(
        &self,
        caller: &Caller,
        weights: Weights,
        candidates: Vec<(String, Subject)>,
        contact: ContactPolicy,
    ) -> Result<Ranking, Problem> {
        // Boxed: the compiler cannot see that a closure's futures of every lifetime are `Send`.
        let mut scored: Vec<Result<_, Problem>> = Vec::new();
        for (name, subject) in candidates {
            let score = self.score(caller, subject, contact);
            let named = async move {
                match score.await {
                    Ok(scorecard) => Ok((name, Ok(scorecard))),
                    Err(problem) => match problem.code {
                        ErrorCode::AgentCardUnreachable | ErrorCode::ValidationError => {
                            Ok((name, Err(problem.message)))
                        }
                        _ => Err(problem),
                    },
                }
            };
            scored.push(Ok(named.boxed()));
        }
        let scored = stream::iter(scored).try_buffered(RANKED_AT_ONCE);
        let scored: Vec<_> = scored.try_collect().await?;
        Ok(Ranking::of(weights, scored))
    }

    /// The history of a card, newest entry first.
    ///
    /// # Errors
    /// An internal error.
    pub async fn history(
        &self,
        tenant: &TenantId,
        url: &Url,
        most: u32,
    ) -> Result<Vec<CardScoring>, Problem> {
        store::card_looks(&self.store, tenant, url.as_str(), most)
            .await
            .map_err(|cause| internal(&cause))
    }

    /// Watches a card: checks it every `every_hours` hours from now on.
    ///
    /// # Errors
    /// `validation_error` for an invalid URL or interval; `conflict` if the tenant watches too many
    /// cards.
    pub async fn watch(
        &self,
        caller: &Caller,
        url: &Url,
        every_hours: u32,
        live: bool,
        alert_below: AlertBelow,
    ) -> Result<(CardWatch, Timestamp, bool), Problem> {
        if !(1..=MOST_HOURS).contains(&every_hours) {
            return Err(Problem::validation(
                "everyHours",
                format!("`everyHours` must be an integer from 1 to {MOST_HOURS}"),
            ));
        }
        self.cards.admit(url).map_err(|fault| unfetched(&fault))?;
        let now = self.clock.now();
        let watch = CardWatch {
            url: url.as_str().to_owned(),
            every_hours,
            live,
            created_at: now,
            alert_below,
        };
        let kept = store::watch_card(&self.store, &caller.tenant, &watch, now, MOST_WATCHED)
            .await
            .map_err(|cause| internal(&cause))?;
        if kept {
            return Ok((watch, now, self.alerts(&caller.tenant).await?));
        }
        Err(Problem::new(
            ErrorCode::Conflict,
            format!("this tenant already watches {MOST_WATCHED} cards; remove one first"),
        ))
    }

    /// Stops watching a card.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn unwatch(&self, caller: &Caller, url: &Url) -> Result<(), Problem> {
        let removed = store::unwatch_card(&self.store, &caller.tenant, url.as_str())
            .await
            .map_err(|cause| internal(&cause))?;
        if removed {
            return Ok(());
        }
        Err(Problem::new(
            ErrorCode::NotFound,
            "this card is not watched",
        ))
    }

    /// The cards a tenant watches, when each is due, and whether an organization receives alerts.
    ///
    /// # Errors
    /// An internal error.
    pub async fn watches(
        &self,
        tenant: &TenantId,
    ) -> Result<Vec<(CardWatch, Timestamp, bool)>, Problem> {
        let alerts = self.alerts(tenant).await?;
        let watches = store::card_watches(&self.store, tenant).await;
        let watches = watches.map_err(|cause| internal(&cause))?;
        Ok(watches
            .into_iter()
            .map(|(it, due)| (it, due, alerts))
            .collect())
    }

    /// Whether the tenant has an organization that receives alerts.
    async fn alerts(&self, tenant: &TenantId) -> Result<bool, Problem> {
        let organization = rating_store::organizations::organization_of(&self.store, tenant).await;
        Ok(organization.map_err(|cause| internal(&cause))?.is_some())
    }

    /// Checks a card that was due at `now`. A missing card gets a history entry too.
    ///
    /// The next check is scheduled soon before this one starts: whatever happens to this check or
    /// to the host, other cards get their turn first.
    pub(super) async fn look_again(&self, due: &DueCard, now: Timestamp) -> Result<(), StoreError> {
        let (tenant, watch) = (&due.tenant, &due.watch);
        let every = SignedDuration::from_hours(i64::from(watch.every_hours));
        let next = now.checked_add(every).unwrap_or(Timestamp::MAX);
        let soon = now.checked_add(every.min(AGAIN)).unwrap_or(Timestamp::MAX);
        let (store, url) = (&self.store, &watch.url);
        store::card_due(store, tenant, url, soon, None).await?;
        let Ok(url) = Url::parse(&watch.url) else {
            return Ok(());
        };
        let contact = if watch.live {
            ContactPolicy::Agent
        } else {
            ContactPolicy::KeySets
        };
        let scoring = match self.cards.fetch(&url).await {
            Ok(fetched) => self.score_fetched(&url, fetched, contact).await.1,
            Err(fault) => self.missing(&url, contact, &fault),
        };
        self.keep_watched(tenant, &scoring, Some(watch)).await?;
        // Unless the watch was changed meanwhile.
        store::card_due(store, tenant, &watch.url, next, Some(soon)).await
    }

    /// The history entry for a missing card.
    fn missing(&self, url: &Url, contact: ContactPolicy, fault: &Unfetched) -> CardScoring {
        CardScoring {
            fault: Some(fault.to_string()),
            ..self.nothing(url, contact)
        }
    }

    async fn score_fetched(
        &self,
        url: &Url,
        fetched: Fetched,
        contact: ContactPolicy,
    ) -> (Scorecard, CardScoring) {
        let digest = fetched.octets.as_ref().map(|it| hex(&Sha256::digest(it)));
        let scorecard = self.cards.score(fetched, contact).await;
        let scoring = CardScoring {
            digest,
            scores: Some(Scores::from(&scorecard)),
            ..self.nothing(url, contact)
        };
        (scorecard, scoring)
    }

    fn nothing(&self, url: &Url, contact: ContactPolicy) -> CardScoring {
        CardScoring {
            id: self.ids.mint("look"),
            url: url.as_str().to_owned(),
            scored_at: self.clock.now(),
            live: contact == ContactPolicy::Agent,
            digest: None,
            scores: None,
            fault: None,
        }
    }

    /// Stores the result of a requested check.
    async fn keep(&self, tenant: &TenantId, scoring: &CardScoring) -> Result<(), StoreError> {
        let watches = store::card_watches(&self.store, tenant).await?;
        let watch = watches.iter().find(|(watch, _)| watch.url == scoring.url);
        self.keep_watched(tenant, scoring, watch.map(|(watch, _)| watch))
            .await
    }

    /// Stores the result of a watched card, with a notice to the tenant's organization if the score
    /// fell or is below the watch's threshold.
    async fn keep_watched(
        &self,
        tenant: &TenantId,
        scoring: &CardScoring,
        watch: Option<&CardWatch>,
    ) -> Result<(), StoreError> {
        let notices = |earlier: &[CardScoring]| {
            let below = watch.and_then(|watch| below(scoring, earlier, watch));
            let dropped = notice(scoring, earlier);
            dropped.into_iter().chain(below).collect::<Vec<Notice>>()
        };
        let organization =
            rating_store::organizations::organization_of(&self.store, tenant).await?;
        let notice = organization.map(|it| WatchNotice {
            organization: it.number,
            notices: &notices,
        });
        if store::keep_card_look(&self.store, tenant, scoring, notice).await? {
            self.store.notify_work().await;
        }
        Ok(())
    }
}

/// The notice about a fallen score, if it fell.
fn notice(scoring: &CardScoring, earlier: &[CardScoring]) -> Option<Notice> {
    let dropped = rating_drops(scoring, earlier);
    if dropped.is_empty() {
        return None;
    }
    let details = json!({"dropped": dropped, "fault": scoring.fault});
    Some(notice_about(Topic::AgentCardScoreDropped, scoring, details))
}

/// The notice about a score below the watch's threshold, if it is below.
fn below(scoring: &CardScoring, earlier: &[CardScoring], watch: &CardWatch) -> Option<Notice> {
    let alerts = alerts(scoring, earlier, watch.alert_below, watch.created_at);
    let details = json!({"below": alerts});
    (!alerts.is_empty()).then(|| notice_about(Topic::AgentCardBelowThreshold, scoring, details))
}

/// A notice about a check, with its scores.
fn notice_about(topic: Topic, scoring: &CardScoring, details: Value) -> Notice {
    let scores = scoring.scores.as_ref();
    let facts = json!({
        "url": scoring.url,
        "look_id": scoring.id,
        "compliance": scores.map(|it| it.compliance.total),
        "trust": scores.map(|it| it.trust.total),
        "availability": scores.and_then(|it| it.availability).map(|it| it.total),
        "production_ready": scores.is_some_and(|it| it.production_ready),
    });
    let mut data = Map::new();
    for members in [facts, details] {
        if let Value::Object(members) = members {
            data.extend(members);
        }
    }
    Notice {
        topic,
        subject: scoring.id.clone(),
        data,
        at: scoring.scored_at,
    }
}

fn unfetched(fault: &Unfetched) -> Problem {
    match fault {
        Unfetched::Unusable | Unfetched::Refused => Problem::validation(
            "url",
            format!(
                "`url`: {fault}; the operator can allow private hosts with \
                `agent_cards.private_targets`"
            ),
        ),
        _ => Problem::new(
            ErrorCode::AgentCardUnreachable,
            format!("{fault}; {}", fault.remedy()),
        ),
    }
}
