//! Views of a long run that has ended, by a host that has its state in memory, by one that reads the
//! stored results, and by one that finds neither.

use rstest::rstest;
use serde_json::{Value, json};

use crate::http::support::host::{SUITE, TestHost, create_body, says, suite};
use crate::store::Engine::{self, Postgres, Sqlite};
use touchstone_host::http::HttpSettings;
use touchstone_host::store::sql::query;
use touchstone_kit::ids::{RunId, TaskId};

/// Their logs are long enough for a stored state.
const TASKS: usize = 700;

fn document() -> Value {
    let texts: Vec<String> = (0..TASKS).map(|at| format!("answer {at}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut document = suite(&says(&texts));
    for at in (0..TASKS).step_by(9) {
        document["tasks"][at]["expected"]["match"]["value"] = json!("something else");
    }
    document["thresholds"] = json!({"passScore": 0.4});
    document
}

async fn views(host: &TestHost, run: &RunId, before: &RunId) -> Vec<(String, Value)> {
    let middle = TASKS / 2;
    let paths = [
        format!("/v1/runs/{run}/eval-summary"),
        format!("/v1/host/touchstone/runs/{run}/tasks/task-{middle}"),
        format!("/v1/host/touchstone/runs/{run}/tasks/task-0"),
        format!("/v1/host/touchstone/runs/{run}/report"),
        format!("/v1/host/touchstone/runs/{run}/report?tasks=none"),
        format!("/v1/host/touchstone/runs/{run}/results?limit=50"),
        format!("/v1/host/touchstone/runs/{run}/results?limit=50&cursor=task-{middle}"),
        format!("/v1/host/touchstone/runs/{run}/results?limit=50&outcome=failed"),
        format!("/v1/host/touchstone/runs/{run}/results?limit=50&order=score"),
        format!("/v1/host/touchstone/runs/{run}/results?limit=50&order=latency"),
        format!("/v1/host/touchstone/runs/{run}/statistics"),
        format!("/v1/host/touchstone/runs/{run}/statistics?pool=none"),
        format!("/v1/host/touchstone/runs/{run}/comparison?baseline={before}&limit=50"),
    ];
    let mut views = Vec::new();
    for place in [0, 1, middle, TASKS - 1] {
        let task = TaskId::from(format!("task-{place}"));
        let found = host.runs.result(&"acme".into(), run, &task).await.unwrap();
        let around = [&found.previous, &found.next];
        views.push((task.to_string(), json!([found.result, around])));
    }
    for path in paths {
        let reply = host.get(&path).await;
        assert_eq!(reply.status.as_u16(), 200, "{path}: {reply:?}");
        views.push((path, reply.json()));
    }
    views
}

#[rstest]
#[tokio::test]
async fn views_are_the_same_from_memory_from_stored_results_and_from_the_state(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let host = TestHost::over(database.open().await, HttpSettings::default()).await;
    host.equip(&says(&["other"])).await;
    let mut of_many = document();
    of_many["version"] = json!("2.0.0");
    let imported = host.post("/v1/host/touchstone/suites", &of_many).await;
    assert_eq!(imported.status.as_u16(), 201, "{imported:?}");
    host.work();
    let mut body = create_body();
    body["evalSuiteRef"] = json!(format!("{SUITE}@2.0.0"));
    let mut runs = Vec::new();
    for _ in 0..2 {
        let created = host.post("/v1/runs", &body).await;
        assert_eq!(created.status.as_u16(), 201, "{created:?}");
        let run = RunId::from(created.json()["runId"].as_str().unwrap());
        host.ended(&run).await;
        runs.push(run);
    }
    let [before, run] = runs.try_into().unwrap();
    let expected = views(&host, &run, &before).await;
    let failed = TASKS.div_ceil(9);
    assert_eq!(expected[0].1[1], json!([null, "task-1"]));
    assert_eq!(expected[4].1["passedCount"], TASKS - failed);

    let count = "SELECT COUNT(*) FROM run_task_results";
    let stored: i64 = query(count).fetch_one(host.store.readers()).await.unwrap();
    assert_eq!(stored, 2);
    let fresh = TestHost::over(database.open().await, HttpSettings::default()).await;
    assert_eq!(views(&fresh, &run, &before).await, expected);

    for table in ["run_task_results", "run_projection"] {
        let sql: &'static str = match table {
            "run_projection" => "DELETE FROM run_projection",
            _ => "DELETE FROM run_task_results",
        };
        query(sql)
            .execute(host.store.writer().unwrap())
            .await
            .unwrap();
        let fresh = TestHost::over(database.open().await, HttpSettings::default()).await;
        assert_eq!(
            views(&fresh, &run, &before).await,
            expected,
            "without {table}"
        );
    }
}
