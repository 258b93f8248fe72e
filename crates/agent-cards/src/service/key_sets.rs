//! Key sets for signatures, fetched and cached.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use moka::Expiry;
use moka::future::Cache;
use url::Url;

use crate::ports::prober::{Method, ProbeRequest, Prober};
use crate::rules::live::{Body, NoReply};
use crate::rules::signature::{KeySet, KeySetAnswer, MAX_KEY_SET_OCTETS};
use crate::service::request;

const CONNECT_WITHIN: Duration = Duration::from_secs(3);
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How long a key set is cached.
const KEPT: Duration = Duration::from_secs(300);
/// How long a failure is cached.
const FAILURE_KEPT: Duration = Duration::from_secs(30);
/// Maximum size of the cache, in bytes.
const MAX_KEPT_OCTETS: u64 = 16 << 20;

pub struct KeySets {
    prober: Arc<dyn Prober>,
    kept: Cache<String, Arc<KeySetAnswer>>,
}

struct ByOutcome;

impl Expiry<String, Arc<KeySetAnswer>> for ByOutcome {
    fn expire_after_create(
        &self,
        _url: &String,
        answer: &Arc<KeySetAnswer>,
        _now: Instant,
    ) -> Option<Duration> {
        Some(match **answer {
            KeySetAnswer::Answered {
                status: 200,
                ref body,
            } if KeySet::parse(body).is_some() => KEPT,
            _ => FAILURE_KEPT,
        })
    }
}

impl KeySets {
    pub fn new(prober: Arc<dyn Prober>) -> Self {
        let weight = |url: &String, answer: &Arc<KeySetAnswer>| {
            let body = match &**answer {
                KeySetAnswer::Answered { body, .. } => body.len(),
                _ => 0,
            };
            u32::try_from(url.len() + body + 64).unwrap_or(u32::MAX)
        };
        let kept = Cache::builder()
            .max_capacity(MAX_KEPT_OCTETS)
            .weigher(weight)
            .expire_after(ByOutcome)
            .build();
        Self { prober, kept }
    }

    /// The result for each URL. Concurrent callers of the same URL share one request.
    pub async fn fetch(&self, urls: Vec<String>) -> BTreeMap<String, KeySetAnswer> {
        let fetched = urls.into_iter().map(|url| async {
            let answer = self
                .kept
                .get_with_by_ref(&url, async { Arc::new(self.ask(&url).await) })
                .await;
            (url, (*answer).clone())
        });
        join_all(fetched).await.into_iter().collect()
    }

    async fn ask(&self, url: &str) -> KeySetAnswer {
        let Ok(url) = Url::parse(url) else {
            return KeySetAnswer::Unreachable;
        };
        let asked = ProbeRequest {
            connect_within: CONNECT_WITHIN,
            within: ANSWER_WITHIN,
            ..request(Method::Get, &url, MAX_KEY_SET_OCTETS)
        };
        match self.prober.ask(asked).await.outcome {
            Ok(reply) => match reply.body {
                Body::Whole(body) => KeySetAnswer::Answered {
                    status: reply.status,
                    body,
                },
                Body::Oversized => KeySetAnswer::TooLarge,
            },
            Err(NoReply::Refused) => KeySetAnswer::Forbidden,
            Err(_) => KeySetAnswer::Unreachable,
        }
    }
}
