//! Acts of people that the audit log holds, with the same use cases as the API.

use axum::http::StatusCode;
use serde_json::Value;

use super::person::Person;
use crate::http::support::host::{TestHost, says, suite};

/// The entries of the audit log of a key's tenant.
async fn entries(host: &TestHost, key: &str) -> Vec<Value> {
    let tenant = host.keys.authenticate(key).await.unwrap().tenant;
    let links = host.store.audit_entries(&tenant, 0, 1000).await.unwrap();
    let entries = links.iter().map(|link| serde_json::from_str(&link.body));
    entries.map(Result::unwrap).collect()
}

/// The actions with this prefix in the audit log of a key's tenant.
pub async fn actions(host: &TestHost, key: &str, prefix: &str) -> Vec<String> {
    let entries = entries(host, key).await;
    let actions = entries.iter().map(|it| it["action"].as_str().unwrap());
    let wanted = actions.filter(|action| action.starts_with(prefix));
    wanted.map(str::to_owned).collect()
}

#[tokio::test]
async fn installing_and_removing_packs_and_suites_is_in_the_audit_log() {
    let host = TestHost::idle().await;
    let key = host
        .issue(|issue| {
            issue.scopes = touchstone_host::access::Scope::ALL.to_vec();
            issue.principal = Some("dana".to_owned());
        })
        .await;
    let person = Person::with(&host, &key).await;
    host.install("1.1.0").await;
    let mut document = suite(&says(&["yes"]));
    document["version"] = "7.0.0".into();
    let text = document.to_string();
    let imported = person
        .submit("/console/suites/import", &[("suite", &text)])
        .await;
    let place = imported.location.unwrap();
    let (place, _) = place.split_once('?').unwrap();
    for place in [place, "/console/packs/community.bench.echo/1.1.0"] {
        let removed = person.submit(&format!("{place}/remove"), &[]).await;
        assert_eq!(removed.status, StatusCode::SEE_OTHER, "{}", removed.text);
    }
    let packs = actions(&host, &key, "packs:").await;
    assert_eq!(packs, ["packs:install", "packs:remove"]);
    let suites = actions(&host, &key, "suites:").await;
    assert_eq!(suites.first().unwrap(), "suites:import");
    assert_eq!(suites.last().unwrap(), "suites:remove");
    let entries = entries(&host, &key).await;
    let of = |action: &str| entries.iter().find(|it| it["action"] == action).unwrap();
    let pack = of("packs:remove");
    assert_eq!(pack["resource"], "community.bench.echo@1.1.0");
    assert_eq!(pack["principal"], "dana");
    let reasons = of("suites:import")["reasons"].to_string();
    assert!(reasons.contains("digest: "), "{reasons}");
}
