//! Searches of the list of runs by words, on both engines.

use rstest::rstest;
use touchstone_host::audit::{Decision, Outcome};
use touchstone_host::store::database::Database;
use touchstone_host::store::sql::query;
use touchstone_kit::ids::RunId;
use touchstone_runs::ports::storage::Retained;
use touchstone_runs::rules::eval::report::Verdict;
use touchstone_runs::rules::run::fold::RunStatus;
use touchstone_runs::rules::run::listing::{RunQuery, RunResult, TagRequest};
use touchstone_runs::rules::run::search::Search;
use touchstone_runs::store as run_store;

use crate::store::{Engine, Engine::*, TestStore, at, claimed, events, open, record, tenant};

fn words(text: &str) -> RunQuery {
    let search = Search::parse(text).unwrap();
    RunQuery {
        words: search.words,
        id_prefix: search.id_prefix,
        limit: 50,
        ..RunQuery::default()
    }
}

async fn found(store: &Database, asked: &RunQuery) -> Vec<String> {
    let found = run_store::run_list::list(store, &tenant("acme"), asked).await;
    let ids = found.unwrap().into_iter().map(|run| run.run_id.to_string());
    ids.collect()
}

async fn names(store: &Database) -> Vec<String> {
    let all = query("SELECT name FROM run_name ORDER BY name").fetch_all(store.readers());
    all.await.unwrap()
}

async fn created(store: &Database, id: &str, owner: &str, suite: &str, tags: &[&str]) {
    let mut run = record(id, owner, 1);
    run.spec.eval_mut().unwrap().suite_id = suite.to_owned();
    run.spec.eval_mut().unwrap().model.model = "GPT_mini".to_owned();
    run.spec.tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    run_store::runs::create(store, &run, None).await.unwrap();
}

#[rstest]
#[tokio::test]
async fn words_match_parts_of_names(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    created(
        &store,
        "run_a1",
        "acme",
        "pack.Refunds",
        &["nightly", "50%"],
    )
    .await;
    created(&store, "run_a2", "acme", "pack.orders", &["Äpfel"]).await;
    created(&store, "run_b1", "globex", "pack.refunds", &[]).await;
    for (text, expected) in [
        ("refund", vec!["run_a1"]),
        ("REFUND night", vec!["run_a1"]),
        ("refund apfel", vec![]),
        ("äpf", vec!["run_a2"]),
        ("gpt_mini", vec!["run_a2", "run_a1"]),
        // Not any character between them.
        ("gpt_m_ni", vec![]),
        ("0%", vec!["run_a1"]),
        ("%", vec!["run_a1"]),
        ("agent", vec!["run_a2", "run_a1"]),
        ("run_a2", vec!["run_a2"]),
        ("run_a gpt night", vec!["run_a1"]),
        ("nothing", vec![]),
    ] {
        assert_eq!(found(&store, &words(text)).await, expected, "{text}");
    }
}

#[rstest]
#[tokio::test]
async fn changed_tags_are_found_and_removed_ones_are_not(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    created(&store, "run_1", "acme", "pack.refunds", &["nightly"]).await;
    let change = async |add: &[&str], remove: &[&str]| {
        let texts = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect();
        let change = TagRequest {
            add: texts(add),
            remove: texts(remove),
        };
        let (run, acme) = (RunId::from("run_1"), tenant("acme"));
        let changed = run_store::run_list::change_tags(&store, &acme, &run, &change, 5);
        changed.await.unwrap();
    };
    // A tag with the name of the suite does not take the name away when it is removed.
    change(&["release", "pack.refunds"], &["nightly"]).await;
    assert_eq!(found(&store, &words("release")).await, ["run_1"]);
    assert!(found(&store, &words("nightly")).await.is_empty());
    change(&[], &["pack.refunds"]).await;
    assert_eq!(found(&store, &words("refunds")).await, ["run_1"]);
    let kept = ["gpt_mini", "pack.agent", "pack.refunds", "release"];
    assert_eq!(names(&store).await, kept);
}

#[rstest]
#[tokio::test]
async fn names_are_deleted_with_their_last_run(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let mut ended = Vec::new();
    for id in ["run_1", "run_2"] {
        let (run, fence) = claimed(&store, id).await;
        run_store::runs::append(&store, &run, fence, &events(&run, 1, 2), true)
            .await
            .unwrap();
        ended.push(run);
    }
    for (run, left) in ended.iter().zip([vec!["m", "pack.agent", "suite"], vec![]]) {
        let decision = Decision {
            at: at(9),
            principal: "key_1".to_owned(),
            action: "runs:delete".to_owned(),
            resource: run.to_string(),
            outcome: Outcome::Done,
            reasons: Vec::new(),
            decided_on: None,
            run_id: Some(run.clone()),
        };
        run_store::storage::delete_run(&store, &tenant("acme"), run, &Retained::Nothing, &decision)
            .await
            .unwrap();
        assert_eq!(names(&store).await, left);
        assert!(
            !found(&store, &words("suite"))
                .await
                .contains(&run.to_string())
        );
    }
}

#[rstest]
#[tokio::test]
async fn the_newest_judged_run_of_each_version_is_found(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    for id in ["run_1", "run_2", "run_3"] {
        let (run, fence) = claimed(&store, id).await;
        run_store::runs::append(&store, &run, fence, &events(&run, 1, 2), true)
            .await
            .unwrap();
        let result = RunResult {
            verdict: Some(Verdict::Pass).filter(|_| id != "run_3"),
            ..serde_json::from_str("{}").unwrap()
        };
        run_store::run_list::set_result(&store, &run, RunStatus::Completed, &result)
            .await
            .unwrap();
    }
    let newest = async |owner: &str, agent: Option<&str>| {
        let found =
            run_store::run_list::newest_of_versions(&store, &tenant(owner), agent, 10).await;
        let ids = found.unwrap().into_iter().map(|run| run.run_id.to_string());
        ids.collect::<Vec<_>>()
    };
    // The newest run has no verdict.
    assert_eq!(newest("acme", None).await, ["run_2"]);
    assert_eq!(newest("acme", Some("pack.agent")).await, ["run_2"]);
    assert!(newest("acme", Some("pack.other")).await.is_empty());
    assert!(newest("globex", None).await.is_empty());
}

/// 100,000 ended runs, each with a tag of its own: more names and runs than a search follows one by one.
async fn fill(database: &TestStore) {
    let named = |column: &str| {
        format!(
            "INSERT INTO run_named (name_number, created_at, run_id, run_number)
            SELECT m.number, s.created_at, s.run_id, s.run_number FROM run_summary s
            JOIN run_name m ON m.tenant = s.tenant AND m.name = s.{column}"
        )
    };
    for sql in [
        "INSERT INTO run (run_id, tenant, created_at, ended)
            WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 100000)
            SELECT 'run_' || n, 'acme', n, TRUE FROM numbers"
            .to_owned(),
        "INSERT INTO run_summary (run_number, tenant, run_id, created_at, kind, suite_id, suite_version, agent_id,
                agent_version, model, status, verdict, subject, result)
            SELECT number, tenant, run_id, created_at, 'eval', 'pack.suite-' || (number % 50), '1.0.0',
                'pack.agent-' || (number % 10), '1.' || (number % 20) || '.0',
                CASE WHEN number % 1000 = 0 THEN 'rare' ELSE 'model-' || (number % 3) END, 'completed',
                CASE WHEN number % 5000 = 0 THEN 'fail' ELSE 'pass' END, '{\"kind\": \"eval\", \"local\": false}', '{}'
            FROM run"
            .to_owned(),
        "INSERT INTO run_tag (run_number, tag) SELECT number, 'build-' || number FROM run".to_owned(),
        "INSERT INTO run_tag (run_number, tag) SELECT number, 'nightly' FROM run WHERE number % 10 = 0".to_owned(),
        "INSERT INTO run_name (tenant, name) SELECT 'acme', suite_id FROM run_summary
            UNION SELECT 'acme', agent_id FROM run_summary UNION SELECT 'acme', model FROM run_summary
            UNION SELECT 'acme', tag FROM run_tag"
            .to_owned(),
        named("suite_id"),
        named("agent_id"),
        named("model"),
        "INSERT INTO run_named (name_number, created_at, run_id, run_number)
            SELECT m.number, s.created_at, s.run_id, s.run_number FROM run_tag t
            JOIN run_summary s ON s.run_number = t.run_number
            JOIN run_name m ON m.tenant = s.tenant AND m.name = t.tag"
            .to_owned(),
        // As the database does by itself from time to time.
        "ANALYZE".to_owned(),
    ] {
        database.execute(sql).await;
    }
}

#[rstest]
#[tokio::test]
async fn searches_find_runs_among_many(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    fill(&database).await;
    let some = |text: &str| Some(text.to_owned());
    let all = |tag, model, verdict| RunQuery {
        tag,
        model,
        verdict,
        limit: 50,
        ..RunQuery::default()
    };
    for (name, asked, expected) in [
        ("one suite", words("suite-7"), 50),
        ("one agent", words("agent-3"), 50),
        ("few runs", words("rare"), 50),
        ("many names", words("build-99"), 50),
        ("all names", words("build"), 50),
        ("nothing", words("none"), 0),
        ("frequent and rare", words("agent-3 rare"), 0),
        ("frequent together", words("agent-3 model-1"), 50),
        ("frequent and never together", words("agent-3 nightly"), 0),
        ("four words", words("suite agent model build"), 50),
        ("a run", words("run_99999"), 1),
        ("a verdict", all(None, None, Some(Verdict::Fail)), 20),
        ("a tag", all(some("nightly"), None, None), 50),
        ("an unknown tag", all(some("none"), None, None), 0),
        ("a model", all(None, some("rare"), None), 50),
    ] {
        assert_eq!(found(&store, &asked).await.len(), expected, "{name}");
    }
    let cells = run_store::run_list::newest_of_versions(&store, &tenant("acme"), None, 600).await;
    assert_eq!(cells.unwrap().len(), 100);
}
