//! Pictures of the console in the documents. `cargo test --test it console::screenshots --
//! --ignored` makes them again.

use std::path::Path;

use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use touchstone_kit::ids::RunId;

use super::browser::with_browser;
use super::support::Site;
use crate::http::support::host::create_body;
use crate::store::Engine::Sqlite;

const WIDTH: u32 = 1280;

/// Answers of a help desk; one is not the expected one.
const ANSWERS: [&str; 12] = [
    "Refund within 14 days",
    "Reset the password",
    "wrong",
    "Escalate to billing",
    "Send the invoice again",
    "Close the account",
    "Change the address",
    "Cancel the order",
    "Explain the delay",
    "Offer a replacement",
    "Confirm the delivery date",
    "Ask for the order number",
];

async fn runs(site: &Site) -> RunId {
    let inputs: Vec<Value> = ANSWERS.map(|say| json!({ "say": say })).into();
    site.host.equip(&inputs).await;
    let _worker = site.host.work();
    let mut last = None;
    for tags in [
        json!(["nightly"]),
        json!(["release-candidate"]),
        json!(["nightly", "release"]),
    ] {
        let mut body = create_body();
        body["tags"] = tags;
        let created = site.host.post("/v1/runs", &body).await;
        assert_eq!(created.status, StatusCode::CREATED, "{created:?}");
        let run: RunId = created.json()["runId"].as_str().unwrap().into();
        site.host.ended(&run).await;
        last = Some(run);
    }
    last.unwrap()
}

#[tokio::test]
#[ignore = "writes into docs/images"]
async fn pictures_of_the_documents() {
    let site = Site::plain(Sqlite).await.unwrap();
    let run = runs(&site).await;
    let address = site.host.listen().await;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/images");
    with_browser(address, async |browser| {
        browser.sign_in(&site.host.key).await;
        browser.prefer("light").await;
        browser.resize(WIDTH).await;
        for (name, path) in [
            ("runs", "/console/runs".to_owned()),
            ("run", format!("/console/runs/{run}")),
            ("task", format!("/console/runs/{run}/tasks/task-2")),
        ] {
            browser.open(&path).await;
            let picture = STANDARD.decode(browser.picture(WIDTH).await).unwrap();
            std::fs::write(folder.join(format!("console-{name}.png")), picture).unwrap();
        }
    })
    .await;
}
