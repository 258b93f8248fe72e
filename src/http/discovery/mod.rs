//! `GET /.well-known/openwop`: the capabilities of this host, in the form of each major that it
//! serves.

mod facts;
mod v1;
mod v2;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, VARY};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use serde_json::Value;

use crate::http::DocumentsApi;
pub use crate::http::discovery::facts::Facts;
use crate::http::discovery::facts::Members;
use touchstone_host::http::Peer;
use touchstone_host::http::answer::etag::{conditional, tag};
use touchstone_host::http::answer::{Answer, no_such_route_problem, own_header};
use touchstone_host::http::auth::{bearer, recognise};
use touchstone_host::http::negotiation::Spoken;
use touchstone_openwop::wire::Major;

const CAPABILITIES_ETAG: HeaderName = HeaderName::from_static("capabilities-etag");

/// The document of each major, serialized once.
pub struct Document {
    views: BTreeMap<Major, Views>,
}

struct Views {
    /// For unauthenticated callers and test keys.
    public: View,
    /// For other keys, where they can use less.
    live: Option<View>,
}

struct View {
    text: Bytes,
    tag: HeaderValue,
}

impl View {
    fn of(document: &Members) -> Self {
        let text = Bytes::from(Value::Object(document.clone()).to_string());
        let tag = own_header(tag(&text).trim_matches('"'));
        Self { text, tag }
    }
}

impl Views {
    fn of(mut document: Members, of_test_keys: &[&str], is_tested: bool) -> Self {
        let public = View::of(&document);
        let live = is_tested.then(|| {
            document.retain(|name, _| !of_test_keys.contains(&name.as_str()));
            View::of(&document)
        });
        Self { public, live }
    }
}

impl Document {
    pub fn new(facts: &Facts<'_>) -> Self {
        let is_tested = facts.settings.conformance;
        let views = facts.majors().list().iter().map(|major| {
            let (document, of_test_keys) = match major {
                Major::V1 => (v1::document(facts), v1::OF_TEST_KEYS),
                Major::V2 => (v2::document(facts), v2::OF_TEST_KEYS),
            };
            (*major, Views::of(document, of_test_keys, is_tested))
        });
        Self {
            views: views.collect(),
        }
    }
}

/// `GET /.well-known/openwop`. On a host in conformance mode, a live key gets a document without
/// what only test keys can use (RFC 0011). An invalid key is ignored: the document needs none.
pub async fn get(
    State(api): State<Arc<DocumentsApi>>,
    Spoken(major): Spoken,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
) -> Answer {
    let views = api.discovery.views.get(&major);
    let views = views.ok_or_else(no_such_route_problem)?;
    let caller = match (&views.live, bearer(&headers)) {
        (Some(_), Some(key)) => {
            let peer = peer.map(|Extension(peer)| peer);
            recognise(&api.host, Some(key), peer).await.ok()
        }
        _ => None,
    };
    if let Some(caller) = &caller {
        api.host.limits.admit(caller)?;
    }
    let view = match (&caller, &views.live) {
        (Some(caller), Some(live)) if !caller.test => live,
        _ => &views.public,
    };
    let mut response = conditional(&headers, view.text.clone());
    let headers = response.headers_mut();
    let cached = match caller {
        Some(_) => "private, max-age=300",
        None => "public, max-age=300",
    };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cached));
    if views.live.is_some() {
        headers.append(VARY, HeaderValue::from_static("authorization"));
    }
    if major == Major::V1 {
        headers.insert(CAPABILITIES_ETAG, view.tag.clone());
    }
    Ok(response)
}
