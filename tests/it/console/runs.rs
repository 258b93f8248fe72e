//! The page of a run, and what people do there.

use axum::http::StatusCode;
use touchstone_host::access::Scope;

use super::visitor::{Visitor, ended};
use crate::http::support::host::{TestHost, says};

#[tokio::test]
async fn people_tag_and_annotate_a_run() {
    let host = TestHost::working(&says(&["yes", "wrong"])).await;
    let ada = Visitor::ada(&host).await;
    let run = ended(&host).await;
    let path = format!("/console/runs/{run}");
    let tagged = ada
        .send(&format!("{path}/tags"), &[("add", " nightly ")])
        .await;
    assert_eq!(tagged.status, StatusCode::SEE_OTHER);
    let location = format!("{path}?done=tagged");
    assert_eq!(tagged.header("location"), Some(location.as_str()));
    assert!(ada.page(&location).await.contains("The tags were changed."));
    assert!(ada.page(&path).await.contains("Remove the tag nightly"));
    ada.send(&format!("{path}/tags"), &[("remove", "nightly")])
        .await;
    assert!(!ada.page(&path).await.contains("nightly"));

    let notes = format!("{path}/annotations");
    let note = [
        ("kind", "note"),
        ("note", "odd <b>answer</b>"),
        ("task", "task-1"),
    ];
    let noted = ada.send(&notes, &note).await;
    assert_eq!(noted.status, StatusCode::SEE_OTHER, "{noted:?}");
    let page = ada.page(&path).await;
    assert!(
        page.contains("odd &#60;b&#62;answer&#60;/b&#62;") && page.contains("about task task-1")
    );
    let task = ada.page(&format!("{path}/tasks/task-1")).await;
    assert!(task.contains("odd &#60;b&#62;"));
    let refused = ada.send(&notes, &[("kind", "note"), ("note", " ")]).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    let unknown = [("kind", "flag"), ("task", "no-such-task")];
    assert_eq!(
        ada.send(&notes, &unknown).await.status,
        StatusCode::BAD_REQUEST
    );
}

#[tokio::test]
async fn people_pause_resume_and_cancel_a_run() {
    let host = TestHost::idle().await;
    host.equip(&[serde_json::json!({"say": "yes", "delayMs": 5_000})])
        .await;
    let ada = Visitor::ada(&host).await;
    let run = host.create().await;
    let path = format!("/console/runs/{run}");
    // A run that no worker has started cannot be paused, and the reason is shown.
    let refused = ada
        .send(&format!("{path}/pause"), &[("reason", "lunch")])
        .await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    assert!(ada.page(&path).await.contains("Cancel the run"));
    let reason = "x".repeat(513);
    let refused = ada
        .send(&format!("{path}/cancel"), &[("reason", &reason)])
        .await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    host.work();
    let cancelled = ada
        .send(&format!("{path}/cancel"), &[("reason", "not needed")])
        .await;
    let location = format!("{path}?done=cancelled");
    assert_eq!(cancelled.header("location"), Some(location.as_str()));
    host.ended(&run).await;
    let page = ada.page(&path).await;
    assert!(!page.contains("Cancel the run"));
    assert!(page.contains("Retry unjudged tasks"));
}

#[tokio::test]
async fn a_reload_without_javascript_clears_no_form() {
    let host = TestHost::idle().await;
    host.equip(&says(&["yes"])).await;
    let ada = Visitor::ada(&host).await;
    let path = format!("/console/runs/{}", host.create().await);
    let reload = "<noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>";
    let page = ada.page(&path).await;
    assert!(
        page.contains("Cancel the run") && !page.contains(reload),
        "{page}"
    );
    assert!(page.contains(&format!("href=\"{path}?reload=5\"")));
    let page = ada.page(&format!("{path}?reload=5")).await;
    assert!(
        page.contains(reload) && page.contains("stop the reloads"),
        "{page}"
    );
    for field in [
        "Cancel the run",
        "name=\"reason\"",
        "name=\"note\"",
        "name=\"add\"",
    ] {
        assert!(!page.contains(field), "{field}: {page}");
    }
}

#[tokio::test]
async fn a_void_run_says_who_and_why() {
    let host = TestHost::working(&says(&["yes"])).await;
    let ada = Visitor::ada(&host).await;
    let run = ended(&host).await;
    let path = format!("/console/runs/{run}");
    let refused = ada.send(&format!("{path}/void"), &[("reason", " ")]).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    let voided = ada
        .send(&format!("{path}/void"), &[("reason", "wrong model")])
        .await;
    assert_eq!(voided.status, StatusCode::SEE_OTHER, "{voided:?}");
    let page = ada.page(&path).await;
    assert!(page.contains("wrong model") && !page.contains("Declare the run void"));
}

#[tokio::test]
async fn documents_are_attachments() {
    let host = TestHost::working(&says(&["yes", "wrong"])).await;
    let ada = Visitor::ada(&host).await;
    let run = ended(&host).await;
    for (name, start) in [
        ("report.html", "<!doctype html>"),
        ("report.md", "#"),
        ("report.json", "{"),
        ("junit.xml", "<?xml"),
        ("attestation.json", "{\"attestations\":["),
    ] {
        let path = format!("/console/runs/{run}/download/{name}");
        let reply = ada.get(&path).await;
        assert_eq!(reply.status, StatusCode::OK, "{name} {reply:?}");
        let expected = format!("attachment; filename=\"{run}-{name}\"");
        assert_eq!(reply.header("content-disposition"), Some(expected.as_str()));
        assert_eq!(reply.header("cache-control"), Some("no-store"));
        assert!(
            reply
                .header("content-security-policy")
                .unwrap()
                .contains("sandbox")
        );
        let text = reply.text().to_lowercase();
        assert!(
            text.starts_with(start),
            "{name}: {}",
            &text[..40.min(text.len())]
        );
    }
    let unknown = ada
        .get(&format!("/console/runs/{run}/download/secrets.txt"))
        .await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_reader_sees_no_buttons() {
    let host = TestHost::working(&says(&["yes"])).await;
    let key = host.key_with(&[Scope::RunsRead]).await;
    let reader = Visitor::signed_in(&host, &key).await;
    let run = ended(&host).await;
    let page = reader.page(&format!("/console/runs/{run}")).await;
    for button in [
        "Add tag",
        "Save the note",
        "Declare the run void",
        "Retry unjudged",
    ] {
        assert!(!page.contains(button), "{button}");
    }
    assert!(
        page.contains("<code>runs:create</code>") && page.contains("<code>runs:content</code>")
    );
    let tagged = reader
        .send(&format!("/console/runs/{run}/tags"), &[("add", "a")])
        .await;
    assert_eq!(tagged.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_run_is_compared_with_the_chosen_baseline() {
    let host = TestHost::working(&says(&["yes", "wrong"])).await;
    let ada = Visitor::ada(&host).await;
    let (first, second) = (ended(&host).await, ended(&host).await);
    let path = format!("/console/runs/{second}");
    let page = ada.page(&path).await;
    assert!(
        page.contains(&format!("?baseline={first}")),
        "the previous run is suggested"
    );
    let page = ada.page(&format!("{path}?baseline={first}")).await;
    assert!(page.contains("because you chose this run"), "{page}");
    let page = ada.page(&format!("{path}?baseline=run_unknown")).await;
    assert!(page.contains("No comparison with"));
    let page = ada.page(&format!("/console/runs/{first}")).await;
    assert!(page.contains("there is no earlier run"));
}

#[tokio::test]
async fn people_search_runs_by_names_and_tags() {
    let host = TestHost::working(&says(&["yes"])).await;
    let ada = Visitor::ada(&host).await;
    let (first, second) = (ended(&host).await, ended(&host).await);
    ada.send(
        &format!("/console/runs/{first}/tags"),
        &[("add", "Nightly")],
    )
    .await;
    let found = ada.page("/console/runs?q=bench+night").await;
    assert!(found.contains(first.as_str()) && !found.contains(second.as_str()));
    assert!(found.contains("value=\"bench night\""), "{found}");
    let of_id = ada.page(&format!("/console/runs?q={second}")).await;
    assert!(of_id.contains(second.as_str()) && !of_id.contains(first.as_str()));
    let none = ada.page("/console/runs?q=nothing").await;
    assert!(none.contains("No run matches"));
    let long = ada.get("/console/runs?q=a+b+c+d+e").await;
    assert_eq!(long.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn people_find_runs_by_day_and_status() {
    let host = TestHost::working(&says(&["yes"])).await;
    let ada = Visitor::ada(&host).await;
    let run = ended(&host).await;
    let listed = host.get("/v1/host/touchstone/runs").await.json();
    let created = listed["runs"][0]["createdAt"].as_str().unwrap();
    let day = created.get(..10).unwrap();
    for (query, is_found) in [
        (format!("since={day}&until={day}"), true),
        (format!("since={created}"), true),
        (format!("until={created}"), false),
        ("until=2001-01-01".to_owned(), false),
        ("since=2999-01-01".to_owned(), false),
        ("status=completed".to_owned(), true),
        ("status=running".to_owned(), false),
    ] {
        let page = ada.page(&format!("/console/runs?{query}")).await;
        assert_eq!(page.contains(run.as_str()), is_found, "{query}: {page}");
    }
    let page = ada
        .page(&format!("/console/runs?kind=eval&limit=7&since={day}"))
        .await;
    for field in [
        "name=\"kind\" value=\"eval\"",
        "name=\"limit\" value=\"7\"",
        &format!("name=\"since\" value=\"{day}\" type=\"date\""),
    ] {
        assert!(page.contains(field), "{field}: {page}");
    }
    let wrong = ada.get("/console/runs?since=yesterday").await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn people_find_a_task_by_its_name() {
    let host = TestHost::working(&says(&["yes", "wrong"])).await;
    let ada = Visitor::ada(&host).await;
    let run = ended(&host).await;
    let path = format!("/console/runs/{run}");
    let task = |n: u8| format!("href=\"{path}/tasks/task-{n}\"");
    let found = ada.page(&format!("{path}?q=TASK-1")).await;
    assert!(
        found.contains(&task(1)) && !found.contains(&task(0)),
        "{found}"
    );
    let none = ada.page(&format!("{path}?q=other")).await;
    assert!(none.contains("No task matches."), "{none}");
    let behind = ada.page(&format!("{path}?from=9999")).await;
    assert!(behind.contains("There are no more tasks."), "{behind}");
    assert!(behind.contains("Show the first tasks"));
    let none = ada.page(&format!("{path}?outcome=unjudged")).await;
    assert!(none.contains("No task has this outcome."), "{none}");
}

#[tokio::test]
async fn people_fork_a_run() {
    let host = TestHost::working(&says(&["yes", "wrong"])).await;
    let ada = Visitor::ada(&host).await;
    let run = ended(&host).await;
    let path = format!("/console/runs/{run}/fork");
    for fields in [
        &[("mode", "replay"), ("from", "1")],
        &[("mode", "branch"), ("from", "1")],
    ] {
        let forked = ada.send(&path, fields).await;
        assert_eq!(forked.status, StatusCode::SEE_OTHER, "{forked:?}");
        let location = forked.header("location").unwrap().to_owned();
        let (fork, done) = location
            .strip_prefix("/console/runs/")
            .and_then(|rest| rest.split_once('?'))
            .unwrap();
        assert!(fork != run.as_str() && done == "done=forked");
        host.ended(&fork.into()).await;
        let page = ada.page(&location).await;
        assert!(page.contains("This is the fork of the other run."));
    }
    let beyond = [("mode", "branch"), ("from", "100000")];
    let refused = ada.send(&path, &beyond).await;
    assert!(refused.status.is_client_error(), "{refused:?}");
    let wrong = ada.send(&path, &[("mode", "branch"), ("from", "x")]).await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    let key = host.key_with(&[Scope::RunsRead]).await;
    let reader = Visitor::signed_in(&host, &key).await;
    let page = reader.page(&format!("/console/runs/{run}")).await;
    assert!(!page.contains("Create the fork"));
    let refused = reader.send(&path, &[("mode", "replay")]).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let foreign = Visitor::signed_in(&host, &host.other_key).await;
    let refused = foreign.send(&path, &[("mode", "replay")]).await;
    assert_eq!(refused.status, StatusCode::NOT_FOUND);
}
