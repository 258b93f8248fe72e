//! The console of a host without keys, which opens to browsers of the same machine.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{COOKIE, HOST};
use axum::http::{Request, StatusCode, Version};
use rstest::rstest;
use touchstone_host::access::Scope;
use touchstone_host::service::sessions::{SessionLimits, Sessions};
use touchstone_host::system::SystemIds;

use super::support::{Site, answer, token_of};
use crate::http::support::host::{Reply, id_of};
use crate::store::{Engine, Engine::*};

struct Local {
    peer: &'static str,
    host: &'static str,
    header: Option<(&'static str, &'static str)>,
}

const NEAR: Local = Local {
    peer: "127.0.0.1:50000",
    host: "localhost:7800",
    header: None,
};

impl Local {
    async fn ask(&self, site: &Site) -> Reply {
        let request = Request::builder().uri("/console/runs?tag=a");
        let mut request = request.header(HOST, self.host);
        if let Some((name, value)) = self.header {
            request = request.header(name, value);
        }
        let peer: SocketAddr = self.peer.parse().unwrap();
        let request = request.body(Body::empty()).unwrap();
        answer(&site.host, request, Some(peer)).await
    }

    /// Whether the request gets a session.
    async fn opens(&self, site: &Site) -> bool {
        let reply = self.ask(site).await;
        let token = token_of(&reply);
        let place = reply.header("location").unwrap_or_default();
        match &token {
            Some(_) => assert_eq!(place, "/console/runs?tag=a"),
            None => assert!(!place.starts_with("/console/runs"), "{reply:?}"),
        }
        token.is_some()
    }
}

async fn without_keys(engine: Engine) -> Option<Site> {
    let site = Site::plain(engine).await?;
    site.database
        .execute("DELETE FROM api_key".to_owned())
        .await;
    Some(site)
}

#[rstest]
#[tokio::test]
async fn without_keys_the_console_opens_to_a_browser_of_the_machine_itself(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(site) = without_keys(engine).await else {
        return;
    };
    assert!(NEAR.opens(&site).await);
    for host in ["127.0.0.1", "[::1]:7800"] {
        assert!(Local { host, ..NEAR }.opens(&site).await, "{host}");
    }
    for peer in ["[::1]:50000", "[::ffff:127.0.0.1]:50000"] {
        assert!(Local { peer, ..NEAR }.opens(&site).await, "{peer}");
    }
    let refused = [
        Local {
            peer: "192.0.2.1:50000",
            ..NEAR
        },
        Local {
            peer: "[2001:db8::1]:50000",
            ..NEAR
        },
        Local {
            host: "attacker.example:7800",
            ..NEAR
        },
        Local {
            host: "localhost.attacker.example",
            ..NEAR
        },
        Local { host: "", ..NEAR },
        Local {
            header: Some(("x-forwarded-for", "192.0.2.1")),
            ..NEAR
        },
        Local {
            header: Some(("forwarded", "for=192.0.2.1")),
            ..NEAR
        },
        Local {
            header: Some(("x-original-host", "evals.example")),
            ..NEAR
        },
        Local {
            header: Some(("via", "1.1 proxy")),
            ..NEAR
        },
        Local {
            header: Some(("sec-fetch-site", "cross-site")),
            ..NEAR
        },
    ];
    for local in refused {
        let what = (local.peer, local.host, local.header);
        assert!(!local.opens(&site).await, "{what:?}");
    }
}

#[tokio::test]
async fn a_local_session_has_the_local_tenant_and_ends_once_a_key_exists() {
    let site = without_keys(Sqlite).await.unwrap();
    let reply = NEAR.ask(&site).await;
    let token = token_of(&reply).unwrap();
    let open = async || {
        let request = Request::builder().uri("/console/runs");
        let request = request.header(COOKIE, format!("touchstone={token}"));
        answer(&site.host, request.body(Body::empty()).unwrap(), None).await
    };
    let page = open().await;
    assert_eq!(page.status, StatusCode::OK, "{page:?}");
    assert!(page.text().contains("Signed in as") && page.text().contains("local"));
    site.host.key_with(&[Scope::RunsRead]).await;
    assert_eq!(open().await.status, StatusCode::SEE_OTHER);
    assert!(!NEAR.opens(&site).await);
}

#[tokio::test]
async fn a_proxy_that_speaks_http_1_0_and_adds_no_header_gets_no_session() {
    let site = without_keys(Sqlite).await.unwrap();
    let ask = async |version: Version| {
        let request = Request::builder().uri("/console/runs").version(version);
        let request = request.header(HOST, NEAR.host).body(Body::empty()).unwrap();
        let reply = answer(&site.host, request, NEAR.peer.parse().ok()).await;
        token_of(&reply).is_some()
    };
    assert!(!ask(Version::HTTP_10).await);
    assert!(ask(Version::HTTP_11).await);
}

#[tokio::test]
async fn a_local_session_ends_with_the_setting() {
    let site = without_keys(Sqlite).await.unwrap();
    let token = token_of(&NEAR.ask(&site).await).unwrap();
    let host = &site.host;
    let with = |opens| {
        let (store, clock, keys) = (host.store.clone(), host.clock.clone(), host.keys.clone());
        let limits = SessionLimits::default();
        let sessions = Sessions::new(store, clock, Arc::new(SystemIds), keys, limits);
        sessions.opening_locally(opens)
    };
    assert!(with(true).recognise(&token).await.is_ok());
    let refused = with(false).recognise(&token).await;
    assert_eq!(refused.unwrap_err().code.status(), 401);
}

#[tokio::test]
async fn a_host_whose_keys_were_all_revoked_stays_closed() {
    let site = Site::plain(Sqlite).await.unwrap();
    for key in [&site.host.key, &site.host.other_key] {
        site.host.keys.revoke(&id_of(key)).await.unwrap();
    }
    assert!(!NEAR.opens(&site).await);
}
