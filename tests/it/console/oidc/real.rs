//! The provider of the package `oidc-provider`, a certified implementation.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use axum::http::HeaderMap;
use axum::http::header::{COOKIE, LOCATION, SET_COOKIE};
use std::time::Duration;
use touchstone_console::session::oidc::config::OidcConfig;
use touchstone_host::net::{Client, Policy};
use touchstone_ratings::rules::badge::host_url::HostUrl;

use super::*;
use crate::client::not_run;
use crate::console::browser::with_browser;

const MODULES: &str = "TOUCHSTONE_TEST_NODE_MODULES";

struct RealProvider {
    process: Child,
    issuer: String,
}

impl RealProvider {
    /// `None`, with a printed note, if its package is not installed.
    fn start(host: &str, redirect: &str) -> Option<Self> {
        if std::env::var_os(MODULES).is_none() {
            not_run("sign-in with OpenID Connect", MODULES);
            return None;
        }
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/node/oidc_provider.mjs");
        let mut process = Command::new("node")
            .args([script, host, redirect])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let issuer = loop {
            let line = lines.next().expect("the provider ends at once").unwrap();
            if line.starts_with("http://") {
                break line;
            }
        };
        // Whatever else it prints must not block it.
        std::thread::spawn(move || lines.count());
        Some(Self { process, issuer })
    }
}

impl Drop for RealProvider {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _status = self.process.wait();
    }
}

const CALLBACK: &str = "https://assess.example.org/console/sign-in/oidc/callback";

/// Follows the provider from its page to the address of the host.
async fn let_in(page: &Url, account: &str) -> Url {
    let client = Client::new(Policy::model(Duration::from_secs(60), 1)).unwrap();
    let (mut url, mut cookies) = (page.clone(), std::collections::BTreeMap::new());
    for _ in 0..9 {
        let mut headers = HeaderMap::new();
        headers.insert("x-account", account.parse().unwrap());
        let held: Vec<String> = cookies.iter().map(|(k, v)| format!("{k}={v}")).collect();
        headers.insert(COOKIE, held.join("; ").parse().unwrap());
        let answer = client.get(&url, &headers).await.unwrap();
        let body = String::from_utf8_lossy(&answer.body);
        let location = answer.headers.get(LOCATION);
        let location = location.unwrap_or_else(|| panic!("{url}: {} {body}", answer.status));
        for cookie in answer.headers.get_all(SET_COOKIE) {
            let pair = cookie.to_str().unwrap().split(';').next().unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            cookies.insert(name.to_owned(), value.to_owned());
        }
        url = url.join(location.to_str().unwrap()).unwrap();
        if url.as_str().starts_with(CALLBACK) {
            return url;
        }
    }
    panic!("too many redirects")
}

/// A sign-in of an account, and the answer of the host.
async fn sign_in(site: &Site, account: &str) -> Reply {
    let flow = Flow::begin(site, START).await;
    let back = let_in(&flow.page, account).await;
    let path = format!("{}?{}", back.path(), back.query().unwrap());
    come_back(site, &path, Some(&flow.cookie)).await
}

fn public(issuer: &str) -> OidcConfig {
    OidcConfig {
        client_id: "public".to_owned(),
        client_secret_env: None,
        ..config(issuer)
    }
}

#[rstest]
#[tokio::test]
async fn people_of_a_real_provider_sign_in(#[values(Sqlite, Postgres)] engine: Engine) {
    let Some(provider) = RealProvider::start("127.0.0.1", CALLBACK) else {
        return;
    };
    for config in [config(&provider.issuer), public(&provider.issuer)] {
        let Some(site) = site_with(engine, config).await else {
            return;
        };
        let reply = sign_in(&site, "dana").await;
        let token = token_of(&reply);
        assert!(token.is_some(), "{reply:?}");
        let mut person = Person {
            host: &site.host,
            token,
        };
        let page = person.get("/console/runs").await.text();
        assert!(
            page.contains("oidc:dana") && page.contains("acme"),
            "{page}"
        );
        let cases = [
            ("guest", "no value of the claim `groups` gives rights"),
            (
                "stranger",
                "no value of the claim `org` stands for a tenant",
            ),
            ("nobody", "You cancelled the sign-in"),
        ];
        for (account, words) in cases {
            let reply = sign_in(&site, account).await;
            assert_refused(&reply, StatusCode::FORBIDDEN, words);
        }
    }
}

#[tokio::test]
async fn a_wrong_client_secret_is_refused_by_the_provider() {
    let Some(provider) = RealProvider::start("127.0.0.1", CALLBACK) else {
        return;
    };
    let config = OidcConfig {
        client_secret_env: None,
        ..config(&provider.issuer)
    };
    let site = site_with(Sqlite, config).await.unwrap();
    let reply = sign_in(&site, "dana").await;
    assert_refused(&reply, StatusCode::BAD_GATEWAY, "not valid");
}

/// The provider is another site than the host, as browsers see it, so that the rules for cookies
/// apply.
#[tokio::test]
async fn a_browser_comes_back_from_another_site_to_the_wanted_page() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let callback = format!("http://{address}/console/sign-in/oidc/callback");
    let Some(provider) = RealProvider::start("localhost", &callback) else {
        return;
    };
    let lab = Lab {
        oidc: Some(config(&provider.issuer)),
        ..Lab::default()
    };
    let home = HostUrl::listening(&address.to_string());
    let site = Site::with(Sqlite, home, lab).await.unwrap();
    site.host.listen_on(listener);
    with_browser(address, async |browser| {
        browser.open("/console/runs?tag=nightly").await;
        browser
            .arrive("/console/sign-in?to=%2Fconsole%2Fruns%3Ftag%3Dnightly")
            .await;
        browser.click("a.primary").await;
        browser.arrive("/console/runs?tag=nightly").await;
        let title = "document.querySelector('h1').textContent";
        browser.until(title, "Runs").await;
        let faults = browser.faults().await;
        assert!(faults.is_empty(), "{faults:?}");
        let cookies = browser.client.get_all_cookies().await.unwrap();
        let of_host = cookies.iter().filter(|it| it.domain() != Some("localhost"));
        let names: Vec<_> = of_host.map(|it| it.name().to_owned()).collect();
        assert_eq!(names, ["touchstone"]);
    })
    .await;
}
