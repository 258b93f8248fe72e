//! The list of runs: conditions, pages and tags, on both engines.

use rstest::rstest;
use touchstone_host::store::database::Database;
use touchstone_kit::ids::RunId;
use touchstone_runs::rules::eval::report::Verdict;
use touchstone_runs::rules::run::fold::RunStatus;
use touchstone_runs::rules::run::listing::{RunQuery, RunResult, TagRequest};
use touchstone_runs::rules::run::record::Work;
use touchstone_runs::store as run_store;
use touchstone_runs::store::run_list::TagChange;
use touchstone_runs::store::run_list::verdicts::{decide, of_version, undecided};

use crate::store::{Engine, Engine::*, at, claimed, events, open, record, tenant};

async fn created(store: &Database, id: &str, owner: &str, seconds: i64, version: &str) {
    let mut run = record(id, owner, 2);
    run.created_at = at(seconds);
    run.spec.eval_mut().unwrap().agent_version = version.to_owned();
    run.spec.tags = vec!["nightly".to_owned()];
    run_store::runs::create(store, &run, None).await.unwrap();
}

async fn listed(store: &Database, asked: RunQuery) -> Vec<String> {
    let asked = RunQuery {
        limit: asked.limit.max(1),
        ..asked
    };
    let found = run_store::run_list::list(store, &tenant("acme"), &asked).await;
    let ids = found.unwrap().into_iter().map(|run| run.run_id.to_string());
    ids.collect()
}

fn asked() -> RunQuery {
    RunQuery {
        limit: 100,
        ..RunQuery::default()
    }
}

#[rstest]
#[tokio::test]
async fn runs_are_listed_newest_first_in_pages(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    // Two runs of the same moment are ordered by their ids.
    for (id, seconds) in [("run_b", 5), ("run_a", 5), ("run_c", 1), ("run_d", 9)] {
        created(&store, id, "acme", seconds, "1.0.0").await;
    }
    created(&store, "run_theirs", "globex", 7, "1.0.0").await;
    assert_eq!(
        listed(&store, asked()).await,
        ["run_d", "run_b", "run_a", "run_c"]
    );

    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = RunQuery {
            limit: 1,
            after: after.clone(),
            ..asked()
        };
        let page = run_store::run_list::list(&store, &tenant("acme"), &page).await;
        let Some(row) = page.unwrap().pop() else {
            break;
        };
        after = Some(row.position());
        found.push(row.run_id.to_string());
    }
    assert_eq!(found, ["run_d", "run_b", "run_a", "run_c"]);
}

#[rstest]
#[tokio::test]
async fn a_run_is_listed_if_it_meets_all_conditions(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    created(&store, "run_aaa1", "acme", 1, "1.0.0").await;
    created(&store, "run_aaa2", "acme", 2, "1.1.0").await;
    let mut other = record("run_bbb1", "acme", 1);
    other.created_at = at(3);
    other.spec.eval_mut().unwrap().suite_id = "pack.other".to_owned();
    run_store::runs::create(&store, &other, None).await.unwrap();

    let suite = record("run_x", "acme", 1)
        .spec
        .eval()
        .unwrap()
        .suite_id
        .clone();
    let some = |text: &str| Some(text.to_owned());
    for (conditions, expected) in [
        (
            RunQuery {
                suite_id: Some(suite.clone()),
                ..asked()
            },
            vec!["run_aaa2", "run_aaa1"],
        ),
        (
            RunQuery {
                suite_id: some("pack.other"),
                ..asked()
            },
            vec!["run_bbb1"],
        ),
        (
            RunQuery {
                agent_id: some("pack.agent"),
                agent_version: some("1.1.0"),
                ..asked()
            },
            vec!["run_aaa2"],
        ),
        (
            RunQuery {
                agent_id: some("pack.none"),
                ..asked()
            },
            vec![],
        ),
        (
            RunQuery {
                id_prefix: some("run_aaa"),
                ..asked()
            },
            vec!["run_aaa2", "run_aaa1"],
        ),
        (
            RunQuery {
                id_prefix: some("run_aaa1"),
                ..asked()
            },
            vec!["run_aaa1"],
        ),
        (
            RunQuery {
                id_prefix: some("run_aab"),
                ..asked()
            },
            vec![],
        ),
        (
            RunQuery {
                tag: some("nightly"),
                ..asked()
            },
            vec!["run_aaa2", "run_aaa1"],
        ),
        (
            RunQuery {
                since: Some(at(2)),
                ..asked()
            },
            vec!["run_bbb1", "run_aaa2"],
        ),
        (
            RunQuery {
                until: Some(at(2)),
                ..asked()
            },
            vec!["run_aaa1"],
        ),
        (
            RunQuery {
                status: Some(RunStatus::Pending),
                suite_id: Some(suite),
                ..asked()
            },
            vec!["run_aaa2", "run_aaa1"],
        ),
        (
            RunQuery {
                status: Some(RunStatus::Completed),
                ..asked()
            },
            vec![],
        ),
        (
            RunQuery {
                verdict: Some(Verdict::Pass),
                ..asked()
            },
            vec![],
        ),
    ] {
        assert_eq!(
            listed(&store, conditions.clone()).await,
            expected,
            "{conditions:?}"
        );
    }
}

#[rstest]
#[tokio::test]
async fn runs_are_found_by_the_exact_id_of_their_workflow(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    created(&store, "run_eval", "acme", 1, "1.0.0").await;
    let journals = [
        ("run_a", "deployment:a"),
        ("run_b", "deployment:ab"),
        ("run_c", "deployment:A"),
        ("run_d", "deployment:\"ä%\\"),
    ];
    for (n, (id, workflow)) in (2..).zip(journals) {
        let mut run = record(id, "acme", 1);
        run.created_at = at(n);
        run.spec.workflow_id = workflow.to_owned();
        run.spec.work = Work::Journal;
        run_store::runs::create(&store, &run, None).await.unwrap();
    }
    for (id, workflow) in journals {
        assert_eq!(listed(&store, asked().of_workflow(workflow)).await, [id]);
    }
    for none in ["deployment:", "deployment", "", "eval:pack.none@1.0.0"] {
        let found = listed(&store, asked().of_workflow(none)).await;
        assert_eq!(found, [""; 0], "{none}");
    }
    let spec = record("run_x", "acme", 1).spec;
    let suite = spec.eval().unwrap();
    let eval = format!("eval:{}@{}", suite.suite_id, suite.suite_version);
    assert_eq!(
        listed(&store, asked().of_workflow(&eval)).await,
        ["run_eval"]
    );
    let tagged = RunQuery {
        tag: Some("nightly".to_owned()),
        ..asked()
    };
    let found = listed(&store, tagged.clone().of_workflow("deployment:a")).await;
    assert_eq!(found, [""; 0]);
    assert_eq!(
        listed(&store, tagged.of_workflow(&eval)).await,
        ["run_eval"]
    );
}

#[rstest]
#[tokio::test]
async fn the_result_of_a_run_is_stored_once_it_has_ended(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    let acme = tenant("acme");
    let missing = async || {
        run_store::run_list::without_result(&store, &acme, 10)
            .await
            .unwrap()
    };
    assert_eq!(missing().await, Vec::<RunId>::new());
    run_store::runs::append(&store, &run, fence, &events(&run, 1, 2), true)
        .await
        .unwrap();
    assert_eq!(missing().await, std::slice::from_ref(&run));
    let result = RunResult {
        completed_at: Some(at(9)),
        verdict: Some(Verdict::Pass),
        lenient_verdict: None,
        score: Some(0.5),
        score_low: None,
        score_high: None,
        judged_count: Some(2),
        passed_count: Some(1),
        total_cost_usd: None,
        latency_p50_ms: Some(3),
        judge_agreement: None,
    };
    run_store::run_list::set_result(&store, &run, RunStatus::Completed, &result)
        .await
        .unwrap();
    assert_eq!(missing().await, Vec::<RunId>::new());
    let row_of = async |verdict: Verdict| {
        let asked = RunQuery {
            verdict: Some(verdict),
            status: Some(RunStatus::Completed),
            ..asked()
        };
        let found = run_store::run_list::list(&store, &acme, &asked).await;
        found.unwrap().pop().map(|row| (row.status, row.result))
    };
    let row = |verdict| {
        Some((
            "completed".to_owned(),
            Some(result.clone().decided(verdict)),
        ))
    };
    assert_eq!(row_of(Verdict::Pass).await, row(None));

    // The verdict that accounts for chance is decided apart from the result.
    let [version] = undecided(&store, &acme, 10)
        .await
        .unwrap()
        .try_into()
        .unwrap();
    let runs = of_version(&store, &acme, &version).await.unwrap();
    let found: Vec<_> = runs
        .iter()
        .map(|it| (&it.run_id, it.lenient, it.decided))
        .collect();
    assert_eq!(found, [(&run, Verdict::Pass, None)]);
    decide(&store, &[&run], Verdict::Inconclusive)
        .await
        .unwrap();
    assert!(undecided(&store, &acme, 10).await.unwrap().is_empty());
    assert_eq!(row_of(Verdict::Pass).await, None);
    let decided = Some(Verdict::Inconclusive);
    assert_eq!(row_of(Verdict::Inconclusive).await, row(decided));
}

#[rstest]
#[tokio::test]
async fn tags_are_added_and_removed_up_to_a_limit(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    created(&store, "run_1", "acme", 1, "1.0.0").await;
    let change = async |owner: &str, add: &[&str], remove: &[&str]| {
        let texts = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect();
        let change = TagRequest {
            add: texts(add),
            remove: texts(remove),
        };
        let (run, owner) = (RunId::from("run_1"), tenant(owner));
        let changed = run_store::run_list::change_tags(&store, &owner, &run, &change, 3);
        changed.await.unwrap()
    };
    let tags =
        |tags: &[&str]| TagChange::Changed(tags.iter().map(|tag| (*tag).to_owned()).collect());
    assert_eq!(
        change("acme", &["b", "a", "b"], &[]).await,
        tags(&["a", "b", "nightly"])
    );
    assert_eq!(change("acme", &["c"], &[]).await, TagChange::TooMany(4));
    assert_eq!(
        change("acme", &["c"], &["nightly", "none"]).await,
        tags(&["a", "b", "c"])
    );
    assert_eq!(change("globex", &["x"], &[]).await, TagChange::NoSuchRun);
    let tagged = RunQuery {
        tag: Some("c".to_owned()),
        ..asked()
    };
    assert_eq!(listed(&store, tagged).await, ["run_1"]);
}
