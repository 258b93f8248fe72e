//! Deployments on hosts that share a database, and on a restarted host.

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_host::http::HttpSettings;
use touchstone_kit::ids::RunId;

use crate::http::deployments::promotion::{audit, list, moved, path, refused};
use crate::http::runs::interrupts::{answer_as, somebody, until};
use crate::http::support::host::{AGENT, TestHost, says};
use crate::store::{Engine, Engine::*, TestStore};

const GATES: &str = "/v1/host/touchstone/gates";

/// A host on a database that others may use.
async fn on(database: &TestStore) -> TestHost {
    TestHost::over(database.open().await, HttpSettings::default()).await
}

async fn set(host: &TestHost, policy: Value) {
    let set = host.post(GATES, &json!({"policy": policy})).await;
    assert_eq!(set.status, StatusCode::OK, "{set:?}");
}

/// Two versions, one step before they go into service without conditions.
async fn furnished(database: &TestStore) -> TestHost {
    let host = on(database).await;
    host.equip(&says(&["a"])).await;
    host.install("1.1.0").await;
    set(&host, json!({"eval": null})).await;
    for version in ["1.0.0", "1.1.0"] {
        for _ in 0..2 {
            moved(&host, json!({"version": version, "transition": "promote"})).await;
        }
    }
    host
}

fn with_outcome<'a>(entries: &'a [Value], action: &str) -> Vec<&'a Value> {
    let of = |entry: &&Value| entry["action"] == action && entry["outcome"] == "done";
    entries.iter().filter(of).collect()
}

/// The events of one kind in the runs of some entries, in the order of the changes.
async fn events(host: &TestHost, entries: &[&Value], kind: &str) -> Vec<Value> {
    let mut found = Vec::new();
    for entry in entries {
        let run = RunId::from(entry["runId"].as_str().unwrap());
        let log = host.ended(&run).await;
        found.extend(
            log.iter()
                .filter(|event| event["type"] == kind)
                .map(|event| event["payload"].clone()),
        );
    }
    found
}

#[rstest]
#[tokio::test]
async fn two_versions_promoted_at_once_come_one_after_the_other(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let first = furnished(&database).await;
    let second = match engine {
        Sqlite => None,
        Postgres => Some(on(&database).await),
    };
    let other = second.as_ref().unwrap_or(&first);
    let body = |version| json!({"version": version, "transition": "promote", "channel": "stable"});
    let (one, two) = (body("1.0.0"), body("1.1.0"));
    let path = path();
    let (here, there) = tokio::join!(first.post(&path, &one), other.post(&path, &two));
    assert_eq!(
        (here.status, there.status),
        (StatusCode::OK, StatusCode::OK),
        "{here:?} {there:?}"
    );
    let entries = audit(&first).await;
    let done = with_outcome(&entries, "deployment:promote");
    let promoted = events(&first, &done[4..], "deployment.promoted").await;
    let [earlier, later] = &promoted[..] else {
        panic!("two promotions into service: {promoted:?}")
    };
    assert_eq!(earlier.get("fromVersion"), None);
    assert_eq!(
        later["fromVersion"], earlier["toVersion"],
        "the later promotion saw the earlier one"
    );
    let records = list(&first).await;
    let serving: Vec<&Value> = records
        .as_array()
        .unwrap()
        .iter()
        .filter(|record| record["channels"] == json!(["stable"]))
        .map(|record| &record["version"])
        .collect();
    assert_eq!(
        serving,
        [&later["toVersion"]],
        "the channel has the later version"
    );
    assert_eq!(list(other).await, records);
}

#[rstest]
#[tokio::test]
async fn many_changes_by_two_replicas_leave_one_history(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let first = furnished(&database).await;
    let second = match engine {
        Sqlite => None,
        Postgres => Some(on(&database).await),
    };
    let other = second.as_ref().unwrap_or(&first);
    for version in ["1.0.0", "1.1.0"] {
        moved(
            &first,
            json!({"version": version, "transition": "promote", "channel": "stable"}),
        )
        .await;
    }
    let asked = (0_u32..24).map(|n| {
        let host = if n % 2 == 0 { &first } else { other };
        // The other version is not on the channel yet, or has the remaining share.
        let body = json!({"version": "1.1.0", "transition": "adjust-canary", "canaryPercent": n});
        async move { host.post(&path(), &body).await.status }
    });
    let statuses = futures_util::future::join_all(asked).await;
    assert!(
        statuses.iter().all(|status| *status == StatusCode::OK),
        "{statuses:?}"
    );
    let entries = audit(other).await;
    let done = with_outcome(&entries, "deployment:adjust-canary");
    let changes = events(&first, &done, "deployment.canary.adjusted").await;
    assert_eq!(changes.len(), 24);
    assert_eq!(changes[0]["fromPercent"], 100);
    for pair in changes.windows(2) {
        assert_eq!(
            pair[1]["fromPercent"], pair[0]["toPercent"],
            "no change was lost"
        );
    }
    let last = &changes[23]["toPercent"];
    for host in [&first, other] {
        let records = list(host).await;
        assert_eq!(&records[1]["canaryPercent"], last);
        assert_eq!(
            records[0]["canaryPercent"].as_u64().unwrap() + last.as_u64().unwrap(),
            100
        );
    }
}

#[rstest]
#[tokio::test]
async fn an_approval_outlives_the_host_that_asked_for_it(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let host = furnished(&database).await;
    set(
        &host,
        json!({"eval": null, "approval": {"requiredRole": "release-manager"}}),
    )
    .await;
    let body = json!({"version": "1.0.0", "transition": "promote", "channel": "stable"});
    // The approval is requested by a host without workers, which stops before anyone can answer.
    let asked = host.post(&path(), &body).await;
    let details = refused(&asked, StatusCode::FORBIDDEN, "forbidden");
    let gate = RunId::from(details["approvalGateId"].as_str().unwrap());
    drop(host);

    let host = on(&database).await;
    let stopped = host.work();
    until(&host, &gate, "waiting-approval").await;
    stopped.cancel();
    drop(host);

    let host = on(&database).await;
    host.work();
    let ann = somebody(&host, "ann", Some("release-manager")).await;
    let answered = answer_as(&host, &ann, &gate, json!({"action": "accept"})).await;
    assert_eq!(answered.status, StatusCode::OK, "{answered:?}");
    host.ended(&gate).await;
    assert_eq!(moved(&host, body).await["approvalGateId"], gate.as_str());
    audit(&host).await;
}

/// The database fails in the middle of a transaction: nothing is written, also as seen by the next
/// process.
#[rstest]
#[case("audit_entry")]
#[case("event")]
#[case("deployment")]
#[case("run_record")]
#[tokio::test]
async fn a_partial_transition_has_no_effect(
    #[case] table: &str,
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let host = furnished(&database).await;
    let (records, entries) = (list(&host).await, audit(&host).await.len());
    for statement in fault(engine, table) {
        database.execute(statement).await;
    }
    let body = json!({"version": "1.0.0", "transition": "promote", "channel": "stable"});
    let keyed = async |host: &TestHost, faulty: bool| {
        let call = host.request(Method::POST, &path());
        let call = call.header("idempotency-key", "attempt-1").json(&body);
        if faulty { call.at_fault() } else { call }.send().await
    };
    let failed = keyed(&host, true).await;
    assert_eq!(
        failed.status,
        StatusCode::INTERNAL_SERVER_ERROR,
        "{failed:?}"
    );
    drop(host);

    let host = on(&database).await;
    assert_eq!(list(&host).await, records);
    assert_eq!(audit(&host).await.len(), entries);
    let runs = database.runs("acme").await;
    let about = runs
        .iter()
        .filter(|run| run.spec.workflow_id == format!("deployment:{AGENT}"));
    assert_eq!(about.count(), 4, "the failed change left no run");
    for statement in mend(engine, table) {
        database.execute(statement).await;
    }
    let done = keyed(&host, false).await;
    assert_eq!(done.status, StatusCode::OK, "{done:?}");
    assert_eq!(done.json()["state"], "active");
    assert_eq!(audit(&host).await.len(), entries + 1);
}

/// Makes writes to a table fail.
fn fault(engine: Engine, table: &str) -> Vec<String> {
    match engine {
        Sqlite => ["INSERT", "UPDATE"]
            .map(|verb| {
                format!(
                    "CREATE TRIGGER fault_{verb} BEFORE {verb} ON {table} BEGIN SELECT RAISE(ABORT, 'fault'); END"
                )
            })
            .into(),
        Postgres => vec![
            "CREATE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'fault'; END $$".to_owned(),
            format!("CREATE TRIGGER fault BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION fault()"),
        ],
    }
}

fn mend(engine: Engine, table: &str) -> Vec<String> {
    match engine {
        Sqlite => ["INSERT", "UPDATE"]
            .map(|verb| format!("DROP TRIGGER fault_{verb}"))
            .into(),
        Postgres => vec![format!("DROP TRIGGER fault ON {table}")],
    }
}
