//! Agent cards: score a card, rank several, show a card's history, watch cards.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::ports::watches::CardWatch;
use crate::rules::history::AlertBelow;
use crate::rules::ranking::Weights;
use crate::rules::web_url;
use crate::service::ContactPolicy;
use crate::service::history::CardScores;
use crate::service::history::{MOST_RANKED, MOST_SHOWN, Subject};
use axum::http::Method;
use touchstone_host::access::Scope;
use touchstone_host::http::HttpHost;
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::{IdempotencyKey, JsonBody, Query, closed};
use touchstone_host::http::idempotency::{Done, once};
use touchstone_host::http::routes::Table;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::undescribed;
use touchstone_kit::error::Problem;

/// State that the routes of agent cards share.
pub struct CardsApi {
    pub host: Arc<HttpHost>,
    pub cards: Arc<CardScores>,
}

impl AsRef<Arc<HttpHost>> for CardsApi {
    fn as_ref(&self) -> &Arc<HttpHost> {
        &self.host
    }
}

pub fn routes(table: Table<CardsApi>) -> Table<CardsApi> {
    let (get, post, delete) = (&Method::GET, &Method::POST, &Method::DELETE);
    table
        .keyed(
            post,
            "/v1/host/touchstone/agent-cards/score",
            Scope::AssessmentsWrite,
            score,
        )
        .keyed(
            post,
            "/v1/host/touchstone/agent-cards/rank",
            Scope::AssessmentsWrite,
            rank,
        )
        .keyed(
            get,
            "/v1/host/touchstone/agent-cards/history",
            Scope::AssessmentsRead,
            history,
        )
        .keyed(
            get,
            "/v1/host/touchstone/agent-cards/watches",
            Scope::AssessmentsRead,
            watches,
        )
        .keyed(
            post,
            "/v1/host/touchstone/agent-cards/watches",
            Scope::AssessmentsWrite,
            watch,
        )
        .keyed(
            delete,
            "/v1/host/touchstone/agent-cards/watches",
            Scope::AssessmentsWrite,
            unwatch,
        )
}

/// Default number of history entries.
const USUALLY_SHOWN: u32 = 20;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Ask {
    #[serde(default)]
    card: Option<Value>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    live: bool,
    #[serde(default)]
    offline: bool,
}

/// `POST /v1/host/touchstone/agent-cards/score`. Changes nothing, so it needs no `Idempotency-Key`.
pub async fn score(
    State(state): State<Arc<CardsApi>>,
    Extension(caller): Extension<Caller>,
    JsonBody(body): JsonBody,
) -> Answer {
    let ask: Ask = read(&body)?;
    // Keep only one copy of the card in memory during scoring.
    drop(body);
    let contact = contact_policy(ask.offline, ask.live)?;
    let subject = subject(ask.card, ask.url, contact)?;
    let scorecard = state.cards.score(&caller, subject, contact).await?;
    json(StatusCode::OK, &scorecard)
}

fn contact_policy(offline: bool, live: bool) -> Result<ContactPolicy, Problem> {
    match (offline, live) {
        (true, true) => Err(Problem::validation(
            "offline",
            "`offline` and `live` contradict each other; leave one out",
        )),
        (true, false) => Ok(ContactPolicy::Offline),
        (false, true) => Ok(ContactPolicy::Agent),
        (false, false) => Ok(ContactPolicy::KeySets),
    }
}

/// The card that was sent, or its URL.
fn subject(
    card: Option<Value>,
    url: Option<String>,
    contact: ContactPolicy,
) -> Result<Subject, Problem> {
    match (card, url) {
        (Some(card), None) => Ok(Subject::AtHand(match card {
            // A card as text: its exact bytes matter.
            Value::String(text) => text.into_bytes(),
            card => card.to_string().into_bytes(),
        })),
        (None, Some(_)) if contact == ContactPolicy::Offline => Err(Problem::validation(
            "offline",
            "a card at a URL cannot be scored offline; send it as `card`",
        )),
        (None, Some(url)) => Ok(Subject::At(parsed(&url)?)),
        _ => Err(Problem::validation("card", "send either `card` or `url`")),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RankRequest {
    candidates: Vec<Candidate>,
    #[serde(default)]
    weights: Option<Weights>,
    #[serde(default)]
    live: bool,
    #[serde(default)]
    offline: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Candidate {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    card: Option<Value>,
    #[serde(default)]
    url: Option<String>,
}

/// `POST /v1/host/touchstone/agent-cards/rank`. Changes nothing, so it needs no `Idempotency-Key`.
pub async fn rank(
    State(state): State<Arc<CardsApi>>,
    Extension(caller): Extension<Caller>,
    JsonBody(body): JsonBody,
) -> Answer {
    let ask: RankRequest = read(&body)?;
    drop(body);
    let contact = contact_policy(ask.offline, ask.live)?;
    let weights = ask.weights.unwrap_or_default().checked();
    let weights =
        weights.map_err(|fault| Problem::validation("weights", format!("`weights` {fault}")))?;
    if !(1..=MOST_RANKED).contains(&ask.candidates.len()) {
        let words = format!(
            "`candidates` must have 1 to {MOST_RANKED} entries, got {}",
            ask.candidates.len()
        );
        return Err(Problem::validation("candidates", words).into());
    }
    let mut candidates = Vec::with_capacity(ask.candidates.len());
    for (number, candidate) in (1..).zip(ask.candidates) {
        let name = candidate.name.or_else(|| candidate.url.clone());
        let name = name.unwrap_or_else(|| format!("card {number}"));
        let subject = subject(candidate.card, candidate.url, contact)?;
        candidates.push((name, subject));
    }
    let ranking = state.cards.rank(&caller, weights, candidates, contact);
    json(StatusCode::OK, &ranking.await?)
}

/// `GET /v1/host/touchstone/agent-cards/history`.
pub async fn history(
    State(state): State<Arc<CardsApi>>,
    Extension(caller): Extension<Caller>,
    query: Query,
) -> Answer {
    let url = named(&query)?;
    let most = query.whole("limit", 1, u64::from(MOST_SHOWN))?;
    let most = most.map_or(USUALLY_SHOWN, |it| u32::try_from(it).unwrap_or(MOST_SHOWN));
    let looks = state.cards.history(&caller.tenant, &url, most).await?;
    json(
        StatusCode::OK,
        &json!({"url": url.as_str(), "looks": looks}),
    )
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Watch {
    url: String,
    every_hours: u32,
    #[serde(default)]
    live: bool,
    #[serde(default)]
    alert_below: AlertBelow,
}

/// `POST /v1/host/touchstone/agent-cards/watches`.
pub async fn watch(
    State(state): State<Arc<CardsApi>>,
    Extension(caller): Extension<Caller>,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let asked: Watch = read(&body)?;
    let url = parsed(&asked.url)?;
    let (cards, watcher) = (state.cards.clone(), caller.clone());
    let endpoint = "POST /v1/host/touchstone/agent-cards/watches".to_owned();
    once(&state.host, &caller, endpoint, key, &body, |_| async move {
        let watched = cards
            .watch(
                &watcher,
                &url,
                asked.every_hours,
                asked.live,
                asked.alert_below,
            )
            .await?;
        Ok(Done::new(StatusCode::OK, shown(&watched)))
    })
    .await
}

/// `GET /v1/host/touchstone/agent-cards/watches`.
pub async fn watches(
    State(state): State<Arc<CardsApi>>,
    Extension(caller): Extension<Caller>,
) -> Answer {
    let watches = state.cards.watches(&caller.tenant).await?;
    let watches: Vec<Value> = watches.iter().map(shown).collect();
    json(StatusCode::OK, &json!({"watches": watches}))
}

/// `DELETE /v1/host/touchstone/agent-cards/watches`.
pub async fn unwatch(
    State(state): State<Arc<CardsApi>>,
    Extension(caller): Extension<Caller>,
    query: Query,
    IdempotencyKey(key): IdempotencyKey,
) -> Answer {
    let url = named(&query)?;
    let (cards, remover) = (state.cards.clone(), caller.clone());
    let endpoint = "DELETE /v1/host/touchstone/agent-cards/watches".to_owned();
    let body = json!({"url": url.as_str()});
    once(&state.host, &caller, endpoint, key, &body, |_| async move {
        cards.unwatch(&remover, &url).await?;
        Ok(Done::new(StatusCode::OK, json!({"removed": true})))
    })
    .await
}

fn shown((watch, due, alerts): &(CardWatch, Timestamp, bool)) -> Value {
    json!({
        "url": watch.url,
        "everyHours": watch.every_hours,
        "live": watch.live,
        "createdAt": watch.created_at,
        "dueAt": due,
        "alerts": alerts,
        "alertBelow": watch.alert_below,
    })
}

fn named(query: &Query) -> Result<Url, Problem> {
    let url = query.get("url").ok_or_else(|| {
        Problem::validation(
            "url",
            "the query parameter `url` is required: the card's URL",
        )
    })?;
    parsed(url)
}

fn parsed(url: &str) -> Result<Url, Problem> {
    web_url::card_place(url).ok_or_else(|| {
        Problem::validation(
            "url",
            "`url` must be an http or https URL of at most 2048 bytes, without credentials",
        )
    })
}

/// Reads a body without unknown members. serde would accept an array in place of an object, with
/// the members in order.
fn read<T: for<'de> Deserialize<'de>>(body: &Value) -> Result<T, Problem> {
    if body.is_object() {
        closed(body)
    } else {
        Err(undescribed(""))
    }
}
