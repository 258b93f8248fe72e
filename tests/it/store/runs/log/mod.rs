//! The event log: gap-free, fenced, all or nothing.

mod segments;

use rstest::rstest;
use serde_json::json;

use crate::store::{Engine, Engine::*, TTL, claimed, events, head, open, record, tenant};
use touchstone_host::ports::run_log::Fence;
use touchstone_host::ports::run_log::{StoredEvent, reaches_end};
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_kit::ids::{AgentId, RunId};
use touchstone_runs::ports::queue::Claimable;
use touchstone_runs::rules::kind::Extensions;
use touchstone_runs::rules::run::record::Work;
use touchstone_runs::store as run_store;

#[rstest]
#[tokio::test]
async fn an_appended_log_reads_back_byte_for_byte(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    assert_eq!(
        touchstone_host::store::database::head(&store, &run)
            .await
            .unwrap(),
        Some(head(0, false))
    );
    assert_eq!(
        run_store::runs::read(&store, &run, 0, 10).await.unwrap(),
        []
    );

    // Sizes around the batch sizes of the prepared statements.
    let mut all = Vec::new();
    for count in [1, 3, 4, 31, 33, 255, 257, 600] {
        let batch = events(&run, all.len() as u64 + 1, count);
        run_store::runs::append(&store, &run, fence, &batch, false)
            .await
            .unwrap();
        all.extend(batch);
    }
    let last = all.len() as u64;
    assert_eq!(
        touchstone_host::store::database::head(&store, &run)
            .await
            .unwrap(),
        Some(head(last, false))
    );
    assert_eq!(
        run_store::runs::read(&store, &run, 0, u32::MAX)
            .await
            .unwrap(),
        all
    );
    assert_eq!(
        run_store::runs::read(&store, &run, 100, 7).await.unwrap(),
        all[100..107]
    );
    assert_eq!(
        run_store::runs::read(&store, &run, last, 10).await.unwrap(),
        []
    );
    assert_eq!(
        run_store::runs::read(&store, &run, u64::MAX, 10)
            .await
            .unwrap(),
        []
    );
}

#[rstest]
#[tokio::test]
async fn bodies_may_hold_any_text_of_any_size(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    let bodies = [
        r#"{"b":1,"a":2,"a":1.0e2}"#.to_owned(),
        r#"{"text":"\u0000 \\ ' \" $1 ? ;--"}"#.to_owned(),
        "{\"text\":\"čeština, 中文, 🦀, \u{202e}rtl, e\u{301}\"}".to_owned(),
        format!("{{\"text\":\"{}\"}}", "ž🦀".repeat(1_000_000)),
        String::new(),
    ];
    let stored: Vec<StoredEvent> = (1..)
        .zip(bodies)
        .map(|(sequence, body)| StoredEvent {
            sequence,
            kind: "touchstone.ž🦀".into(),
            body: body.into(),
        })
        .collect();
    run_store::runs::append(&store, &run, fence, &stored, false)
        .await
        .unwrap();
    // The fourth event is so large that a read ends with it.
    let (first, rest) = stored.split_at(4);
    assert_eq!(
        run_store::runs::read(&store, &run, 0, 10).await.unwrap(),
        first
    );
    assert_eq!(
        run_store::runs::read(&store, &run, 4, 10).await.unwrap(),
        rest
    );
}

#[rstest]
#[case::gap(5, 1)]
#[case::duplicate(3, 1)]
#[case::overlap(2, 3)]
#[case::from_the_start(1, 3)]
#[tokio::test]
async fn an_append_that_does_not_continue_the_log_is_refused(
    #[values(Sqlite, Postgres)] engine: Engine,
    #[case] first: u64,
    #[case] count: u64,
) {
    open!(engine => _database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    let before = events(&run, 1, 3);
    run_store::runs::append(&store, &run, fence, &before, false)
        .await
        .unwrap();
    let refused =
        run_store::runs::append(&store, &run, fence, &events(&run, first, count), true).await;
    assert!(matches!(refused, Err(StoreError::Fenced)), "{refused:?}");
    assert_eq!(
        touchstone_host::store::database::head(&store, &run)
            .await
            .unwrap(),
        Some(head(3, false))
    );
    assert_eq!(
        run_store::runs::read(&store, &run, 0, 10).await.unwrap(),
        before
    );
}

#[rstest]
#[case::gap(&[1, 3])]
#[case::duplicate(&[1, 1])]
#[case::descending(&[2, 1])]
#[case::from_zero(&[0, 1])]
#[tokio::test]
async fn a_batch_out_of_order_is_refused(
    #[values(Sqlite, Postgres)] engine: Engine,
    #[case] sequences: &[u64],
) {
    open!(engine => _database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    let batch: Vec<_> = sequences
        .iter()
        .map(|&sequence| StoredEvent {
            sequence,
            kind: "eval.scored".into(),
            body: "{}".into(),
        })
        .collect();
    let refused = run_store::runs::append(&store, &run, fence, &batch, false).await;
    assert!(
        matches!(refused, Err(StoreError::Inconsistent { .. })),
        "{refused:?}"
    );
    assert_eq!(
        touchstone_host::store::database::head(&store, &run)
            .await
            .unwrap(),
        Some(head(0, false))
    );
}

#[rstest]
#[tokio::test]
async fn nothing_follows_the_terminal_event(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    let no_end = run_store::runs::append(&store, &run, fence, &[], true).await;
    assert!(
        matches!(no_end, Err(StoreError::Inconsistent { .. })),
        "an end needs its event"
    );
    run_store::runs::append(&store, &run, fence, &[], false)
        .await
        .unwrap();
    run_store::runs::append(&store, &run, fence, &events(&run, 1, 2), true)
        .await
        .unwrap();
    assert_eq!(
        touchstone_host::store::database::head(&store, &run)
            .await
            .unwrap(),
        Some(head(2, true))
    );
    let refused = run_store::runs::append(&store, &run, fence, &events(&run, 3, 1), false).await;
    assert!(matches!(refused, Err(StoreError::Fenced)));
    assert_eq!(
        run_store::runs::read(&store, &run, 0, 10)
            .await
            .unwrap()
            .len(),
        2
    );
    database.pass(1_000_000).await;
    let claim = run_store::queue::claim(&store, "other", Claimable::All, crate::store::TTL).await;
    assert!(claim.unwrap().is_none(), "an ended run is not queued");
}

#[rstest]
#[tokio::test]
async fn a_stale_fencing_token_writes_nothing(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    let (run, old) = claimed(&store, "run_1").await;
    run_store::runs::append(&store, &run, old, &events(&run, 1, 2), false)
        .await
        .unwrap();
    database.pass(1_000).await;
    let claim = run_store::queue::claim(&store, "other", Claimable::All, crate::store::TTL)
        .await
        .unwrap();
    let claim = claim.unwrap();
    assert!(claim.fence > old);
    assert_eq!(claim.head, head(2, false));

    for fence in [old, Fence(claim.fence.0 + 1), Fence(0)] {
        let refused =
            run_store::runs::append(&store, &run, fence, &events(&run, 3, 300), true).await;
        assert!(matches!(refused, Err(StoreError::Fenced)), "{refused:?}");
    }
    assert_eq!(
        touchstone_host::store::database::head(&store, &run)
            .await
            .unwrap(),
        Some(head(2, false))
    );
    assert_eq!(
        run_store::runs::read(&store, &run, 2, 10).await.unwrap(),
        []
    );
    let new = events(&run, 3, 1);
    run_store::runs::append(&store, &run, claim.fence, &new, false)
        .await
        .unwrap();
}

#[rstest]
#[tokio::test]
async fn an_unknown_run_has_no_log(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let run = RunId::from("run_unknown");
    assert_eq!(
        touchstone_host::store::database::head(&store, &run)
            .await
            .unwrap(),
        None
    );
    assert_eq!(
        run_store::runs::read(&store, &run, 0, 10).await.unwrap(),
        []
    );
    assert_eq!(
        run_store::runs::sequence_of(&store, &run, "evt_1")
            .await
            .unwrap(),
        None
    );
    let refused = run_store::runs::append(&store, &run, Fence(1), &events(&run, 1, 1), false).await;
    assert!(matches!(refused, Err(StoreError::Fenced)));
}

#[rstest]
#[tokio::test]
async fn an_event_id_is_found_in_its_own_run_only(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let (one, fence) = claimed(&store, "run_1").await;
    run_store::runs::append(&store, &one, fence, &events(&one, 1, 50), false)
        .await
        .unwrap();
    let (two, fence) = claimed(&store, "run_2").await;
    run_store::runs::append(&store, &two, fence, &events(&two, 1, 5), false)
        .await
        .unwrap();

    // Every id occurs twice: in its own event, and as the cause of the next.
    for sequence in [1, 7, 50] {
        let id = format!("evt_run_1_{sequence}");
        assert_eq!(
            run_store::runs::sequence_of(&store, &one, &id)
                .await
                .unwrap(),
            Some(sequence)
        );
        assert_eq!(
            run_store::runs::sequence_of(&store, &two, &id)
                .await
                .unwrap(),
            None
        );
    }
    for id in [
        "",
        "evt_run_1_0",
        "evt_run_1_51",
        "evt_run_1",
        "evt_run_1_007",
        "evt_run_1_99999999999999999999",
        "evt_other_7",
        "%",
        "_",
        &format!("{}_1", "e".repeat(127)),
    ] {
        assert_eq!(
            run_store::runs::sequence_of(&store, &one, id)
                .await
                .unwrap(),
            None,
            "{id}"
        );
    }
}

/// Events copied from another log may keep their ids, at the same position or another one.
#[rstest]
#[tokio::test]
async fn a_copied_event_is_found_by_the_id_it_kept(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let (source, fence) = claimed(&store, "run_1").await;
    let log = events(&source, 1, 20);
    run_store::runs::append(&store, &source, fence, &log, true)
        .await
        .unwrap();
    let (copy, fence) = claimed(&store, "run_2").await;
    let moved = log[10..]
        .iter()
        .zip(6..)
        .map(|(event, sequence)| StoredEvent {
            sequence,
            ..event.clone()
        });
    let copied: Vec<StoredEvent> = log[..5].iter().cloned().chain(moved).collect();
    run_store::runs::append(&store, &copy, fence, &copied, false)
        .await
        .unwrap();
    let own = events(&copy, 16, 5);
    run_store::runs::append(&store, &copy, fence, &own, true)
        .await
        .unwrap();

    let found = async |run, id: &str| run_store::runs::sequence_of(&store, run, id).await.unwrap();
    assert_eq!(found(&copy, "evt_run_1_3").await, Some(3));
    assert_eq!(found(&copy, "evt_run_1_8").await, None, "not copied");
    assert_eq!(found(&copy, "evt_run_1_11").await, Some(6));
    assert_eq!(found(&copy, "evt_run_1_20").await, Some(15));
    assert_eq!(found(&copy, "evt_run_2_18").await, Some(18));
    assert_eq!(found(&source, "evt_run_1_11").await, Some(11));
}

#[rstest]
#[tokio::test]
async fn an_event_that_cannot_be_read_does_not_fail_a_search(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    let (copy, fence) = claimed(&store, "run_2").await;
    let log: Vec<StoredEvent> = events(&"run_1".into(), 11, 3)
        .into_iter()
        .zip(1..)
        .map(|(event, sequence)| StoredEvent { sequence, ..event })
        .collect();
    run_store::runs::append(&store, &copy, fence, &log, true)
        .await
        .unwrap();
    let damage = "UPDATE event SET body = 'evt_run_1_13' WHERE sequence = 1";
    database.execute(damage.to_owned()).await;
    let found = run_store::runs::sequence_of(&store, &copy, "evt_run_1_13")
        .await
        .unwrap();
    assert_eq!(found, Some(3));
}

/// Finding an event by id costs the same for any log length: no other event is read.
#[rstest]
#[tokio::test]
async fn an_event_is_found_without_looking_at_others(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    run_store::runs::append(&store, &run, fence, &events(&run, 1, 50), false)
        .await
        .unwrap();
    // A search would find the other event with this id first.
    let decoy = "UPDATE event SET body = (SELECT e.body FROM event e WHERE e.sequence = 49) WHERE sequence = 48";
    database.execute(decoy.to_owned()).await;
    let found = run_store::runs::sequence_of(&store, &run, "evt_run_1_49")
        .await
        .unwrap();
    assert_eq!(found, Some(49));
}

#[rstest]
#[tokio::test]
async fn a_run_is_created_once_and_seen_by_its_tenant_only(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let (acme, globex) = (tenant("acme"), tenant("globex"));
    let first = record("run_1", "acme", 3);
    run_store::runs::create(&store, &first, None).await.unwrap();
    let again = run_store::runs::create(&store, &record("run_1", "globex", 1), None).await;
    assert!(matches!(again, Err(StoreError::Exists(_))));
    let second = record("run_2", "acme", 20_000);
    run_store::runs::create(&store, &second, None)
        .await
        .unwrap();

    let id = RunId::from("run_2");
    assert_eq!(
        run_store::runs::find(&store, &acme, &id).await.unwrap(),
        Some(second)
    );
    let id = RunId::from("run_1");
    assert_eq!(
        run_store::runs::find(&store, &acme, &id).await.unwrap(),
        Some(first)
    );
    assert_eq!(
        run_store::runs::find(&store, &globex, &id).await.unwrap(),
        None
    );
}

/// A started eval run of this version, ended if `ends`.
async fn evaluated(store: &Database, id: &str, owner: &str, version: &str, ends: bool) {
    let mut run = record(id, owner, 1);
    run.spec.eval_mut().unwrap().agent_version = version.to_owned();
    run_store::runs::create(store, &run, None).await.unwrap();
    let claim = run_store::queue::claim_run(store, &run.tenant, &run.run_id, "worker", TTL);
    let fence = claim.await.unwrap().unwrap().fence;
    let log = events(&run.run_id, 1, 1);
    run_store::runs::append(store, &run.run_id, fence, &log, ends)
        .await
        .unwrap();
}

#[rstest]
#[tokio::test]
async fn the_newest_eval_of_a_version_is_found_among_any_number_of_runs(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let acme = tenant("acme");
    let agent = AgentId::from("pack.agent");
    let newest = async |store: &Database, version: &str| {
        let found = run_store::runs::newest_eval(store, &acme, &agent, version)
            .await
            .unwrap();
        found.map(|run| run.to_string())
    };
    assert_eq!(newest(&*store, "1.0.0").await, None);
    evaluated(&store, "run_old", "acme", "1.0.0", true).await;
    evaluated(&store, "run_new", "acme", "1.0.0", true).await;
    evaluated(&store, "run_at_work", "acme", "1.0.0", false).await;
    evaluated(&store, "run_next", "acme", "1.1.0", true).await;
    evaluated(&store, "run_theirs", "globex", "1.0.0", true).await;
    for n in 0..150 {
        let mut other = record(&format!("run_other_{n}"), "acme", 1);
        other.spec.work = Work::Journal;
        run_store::runs::create(&store, &other, None).await.unwrap();
    }
    assert_eq!(newest(&*store, "1.0.0").await.as_deref(), Some("run_new"));
    assert_eq!(newest(&*store, "1.1.0").await.as_deref(), Some("run_next"));
    assert_eq!(newest(&*store, "2.0.0").await, None);
}

fn oasis(profile: &str) -> serde_json::Value {
    json!({"profile": profile, "profileVersion": "0.1.0", "tier": 1, "provider": "lab", "evaluator": "QA",
        "profilePack": "sha256-p"})
}

/// A started OASIS evaluation of version 1.0.0 with this profile, ended if `ends`.
async fn assessed(store: &Database, id: &str, owner: &str, profile: &str, ends: bool) {
    let mut run = record(id, owner, 1);
    run.spec.eval_mut().unwrap().extensions = Extensions::of("oasis", &oasis(profile)).unwrap();
    run_store::runs::create(store, &run, None).await.unwrap();
    let claim = run_store::queue::claim_run(store, &run.tenant, &run.run_id, "worker", TTL);
    let fence = claim.await.unwrap().unwrap().fence;
    let log = events(&run.run_id, 1, 1);
    run_store::runs::append(store, &run.run_id, fence, &log, ends)
        .await
        .unwrap();
}

/// An ended replay of an OASIS evaluation of version 1.0.0.
async fn replayed(store: &Database, id: &str, source: &str, owner: &str, profile: &str) {
    let mut run = record(id, owner, 1);
    run.spec.eval_mut().unwrap().extensions = Extensions::of("oasis", &oasis(profile)).unwrap();
    let fork = json!({"sourceRunId": source, "fromSeq": 0, "mode": "replay", "history": 1, "origin": source, "forkedBy": "key_1"});
    run.fork = Some(serde_json::from_value(fork).unwrap());
    run_store::runs::create(store, &run, None).await.unwrap();
    let claim = run_store::queue::claim_run(store, &run.tenant, &run.run_id, "worker", TTL);
    let fence = claim.await.unwrap().unwrap().fence;
    let log = events(&run.run_id, 1, 1);
    run_store::runs::append(store, &run.run_id, fence, &log, true)
        .await
        .unwrap();
}

#[rstest]
#[tokio::test]
async fn the_newest_evaluation_of_a_version_is_found_by_its_profile(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let (acme, agent) = (tenant("acme"), AgentId::from("pack.agent"));
    let newest = async |version: &str, profile: &str| {
        let found =
            run_store::runs::newest_of_profile(&store, &acme, &agent, version, profile).await;
        found.unwrap().map(|run| run.to_string())
    };
    assert_eq!(newest("1.0.0", "desk").await, None);
    assessed(&store, "run_old", "acme", "desk", true).await;
    assessed(&store, "run_new", "acme", "desk", true).await;
    assessed(&store, "run_at_work", "acme", "desk", false).await;
    assessed(&store, "run_other", "acme", "yard", true).await;
    assessed(&store, "run_theirs", "globex", "desk", true).await;
    replayed(&store, "run_again", "run_old", "acme", "desk").await;
    evaluated(&store, "run_plain", "acme", "1.0.0", true).await;
    assert_eq!(newest("1.0.0", "desk").await.as_deref(), Some("run_new"));
    assert_eq!(newest("1.0.0", "yard").await.as_deref(), Some("run_other"));
    assert_eq!(newest("1.1.0", "desk").await, None);
    assert_eq!(newest("1.0.0", "DESK").await, None);
    // It counts as an eval of the version like any other.
    let evals = run_store::runs::newest_eval(&store, &acme, &agent, "1.0.0")
        .await
        .unwrap();
    assert_eq!(evals.unwrap().as_str(), "run_plain");
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_see_whole_batches_while_they_are_written(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    const BATCH: u64 = 50;
    const BATCHES: u64 = 40;

    open!(engine => database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    let mut readers = Vec::new();
    for replica in [std::sync::Arc::clone(&store), database.open().await] {
        for _ in 0..4 {
            let (store, run) = (std::sync::Arc::clone(&replica), run.clone());
            readers.push(tokio::spawn(async move {
                let mut seen = 0;
                while seen < BATCH * BATCHES {
                    let reach = touchstone_host::store::database::head(&store, &run)
                        .await
                        .unwrap()
                        .unwrap()
                        .sequence;
                    let read = run_store::runs::read(&store, &run, seen, u32::MAX)
                        .await
                        .unwrap();
                    for event in &read {
                        seen += 1;
                        assert_eq!(event.sequence, seen, "in order, no gap");
                    }
                    assert!(seen >= reach, "every event up to the head is readable");
                    assert_eq!(seen % BATCH, 0, "a batch is read completely");
                }
            }));
        }
    }
    for batch in 0..BATCHES {
        let batch = events(&run, batch * BATCH + 1, BATCH);
        run_store::runs::append(&store, &run, fence, &batch, false)
            .await
            .unwrap();
    }
    for reader in readers {
        reader.await.unwrap();
    }
}

#[rstest]
#[tokio::test]
async fn a_read_ends_when_its_documents_come_to_a_few_megabytes(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    let (run, fence) = claimed(&store, "run_1").await;
    let sizes = [10, 3 << 20, 2 << 20, 10, 10, 9 << 20, 10];
    for (event, size) in events(&run, 1, 7).into_iter().zip(sizes) {
        let text = String::from_utf8(event.body.to_vec()).unwrap();
        // Size is measured in bytes, not characters.
        let body = format!("{text}{}", "é".repeat(size / 2));
        let event = StoredEvent {
            body: body.into(),
            ..event
        };
        run_store::runs::append(&store, &run, fence, &[event], false)
            .await
            .unwrap();
    }
    for (after, last) in [(0, 3), (1, 3), (2, 6), (3, 6), (5, 6), (6, 7)] {
        let read = run_store::runs::read(&store, &run, after, 100)
            .await
            .unwrap();
        let sequences: Vec<u64> = read.iter().map(|event| event.sequence).collect();
        assert_eq!(sequences, (after + 1..=last).collect::<Vec<_>>());
        assert_eq!(reaches_end(&read, 100), last == 7);
        assert_eq!(
            run_store::runs::read(&store, &run, after, 1)
                .await
                .unwrap()
                .len(),
            1
        );
    }
}
