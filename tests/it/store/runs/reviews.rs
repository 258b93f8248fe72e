//! Human reviews: labels, claims, and what deleting their run leaves.

use std::sync::Arc;

use rstest::rstest;
use touchstone_host::audit::{Decision, Outcome};
use touchstone_host::store::database::Database;
use touchstone_kit::ids::TaskId;
use touchstone_runs::ports::reviews::Labelled;
use touchstone_runs::rules::review::{Label, Review, ReviewClaim};
use touchstone_runs::store as run_store;
use touchstone_runs::store::reviews;

use crate::store::{Engine, Engine::*, at, open, record, tenant};

fn review(id: &str, labellers: u8) -> Review {
    Review {
        review_id: id.to_owned(),
        run_id: "run_1".into(),
        suite: "suite@1.0.0".to_owned(),
        outcome: None,
        sample: None,
        seed: 0,
        labellers,
        steps: 1,
        items: 2,
        created_by: "key_1".to_owned(),
        created_at: at(1),
        closed_at: None,
    }
}

fn decision(action: &str) -> Decision {
    Decision {
        at: at(9),
        principal: "key_1".to_owned(),
        action: action.to_owned(),
        resource: "review_1".to_owned(),
        outcome: Outcome::Done,
        reasons: Vec::new(),
        decided_on: None,
        run_id: None,
    }
}

async fn furnish(store: &Database, review: &Review) {
    let run = record("run_1", "acme", 2);
    run_store::runs::create(store, &run, None).await.unwrap();
    let tasks = ["task-1", "task-0"].map(TaskId::from);
    let (ours, decision) = (tenant("acme"), decision("reviews:create"));
    let created = reviews::create(store, &ours, review, &tasks, &decision, None);
    created.await.unwrap();
}

async fn label(store: &Database, review: &Review, item: u32, who: &str, choice: u8) -> Labelled {
    let label = Label {
        principal: who.to_owned(),
        choice,
        note: Some("ž🦀".to_owned()),
        at: at(2),
    };
    let (ours, decision) = (tenant("acme"), decision("reviews:label"));
    let labelled = reviews::label(store, &ours, review, item, &label, &decision, None);
    labelled.await.unwrap()
}

async fn claim(store: &Database, review: &Review, who: &str, until: i64, now: i64) -> bool {
    let claim = ReviewClaim {
        principal: who.to_owned(),
        until: at(until),
    };
    let ours = tenant("acme");
    let claimed = reviews::claim(store, &ours, review, 1, &claim, at(now));
    claimed.await.unwrap()
}

#[rstest]
#[tokio::test]
async fn a_review_keeps_its_items_and_belongs_to_its_tenant(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let review = review("review_1", 2);
    furnish(&store, &review).await;
    let ours = tenant("acme");
    let found = reviews::find(&store, &ours, "review_1").await.unwrap();
    assert_eq!(found, Some(review.clone()));
    let foreign = reviews::find(&store, &tenant("globex"), "review_1").await;
    assert_eq!(foreign.unwrap(), None);
    let items = reviews::items(&store, "review_1").await.unwrap();
    let tasks: Vec<_> = items
        .iter()
        .map(|it| (it.number, it.task.as_str()))
        .collect();
    assert_eq!(tasks, [(1, "task-1"), (2, "task-0")]);
    assert_eq!(
        label(&store, &review, 1, "ann", 1).await,
        Labelled::Recorded
    );
    let listed = reviews::list(&store, &ours, None, 10).await.unwrap();
    assert_eq!((listed.len(), listed[0].labels), (1, 1));
    let before = Some(listed[0].number);
    let older = reviews::list(&store, &ours, before, 10).await.unwrap();
    assert_eq!(older, []);
    let theirs = reviews::list(&store, &tenant("globex"), None, 10).await;
    assert_eq!(theirs.unwrap(), []);
}

#[rstest]
#[tokio::test]
async fn a_label_changes_until_its_item_is_complete(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let review = review("review_1", 2);
    furnish(&store, &review).await;
    assert_eq!(label(&store, &review, 3, "ann", 1).await, Labelled::Missing);
    for choice in [0, 1] {
        let changed = label(&store, &review, 1, "ann", choice).await;
        assert_eq!(changed, Labelled::Recorded);
    }
    assert_eq!(
        label(&store, &review, 1, "bob", 0).await,
        Labelled::Recorded
    );
    for who in ["ann", "bob", "eve"] {
        assert_eq!(label(&store, &review, 1, who, 0).await, Labelled::Complete);
    }
    let items = reviews::items(&store, "review_1").await.unwrap();
    let labels: Vec<_> = items[0]
        .labels
        .iter()
        .map(|it| (it.principal.as_str(), it.choice))
        .collect();
    assert_eq!(labels, [("ann", 1), ("bob", 0)]);
    let ours = tenant("acme");
    for expected in [true, false] {
        let decision = decision("reviews:close");
        let closed = reviews::close(&store, &ours, "review_1", &decision, None).await;
        assert_eq!(closed.unwrap(), expected);
    }
    assert_eq!(label(&store, &review, 2, "ann", 1).await, Labelled::Closed);
    let found = reviews::find(&store, &ours, "review_1").await.unwrap();
    assert_eq!(found.unwrap().closed_at, Some(at(9)));
}

#[rstest]
#[tokio::test]
async fn no_more_people_than_needed_open_an_item(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let review = review("review_1", 1);
    furnish(&store, &review).await;
    assert!(claim(&store, &review, "ann", 10, 1).await);
    assert!(claim(&store, &review, "ann", 20, 1).await, "once more");
    assert!(!claim(&store, &review, "bob", 20, 1).await);
    assert!(claim(&store, &review, "bob", 40, 20).await, "it has ended");
    reviews::release(&store, "review_1", 1, "bob")
        .await
        .unwrap();
    assert!(claim(&store, &review, "eve", 60, 30).await);
    assert_eq!(
        label(&store, &review, 1, "eve", 1).await,
        Labelled::Recorded
    );
    let items = reviews::items(&store, "review_1").await.unwrap();
    let left: Vec<_> = items[0].claims.iter().map(|it| &it.principal).collect();
    assert_eq!(left, ["ann"], "a label ends a claim");
    assert!(!claim(&store, &review, "bob", 80, 70).await, "complete");
}

#[rstest]
#[tokio::test]
async fn of_concurrent_labels_only_as_many_count_as_are_needed(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let review = review("review_1", 2);
    furnish(&store, &review).await;
    let people = (0..6).map(|n| {
        let (store, review): (Arc<Database>, Review) = (store.clone(), review.clone());
        tokio::spawn(async move { label(&store, &review, 1, &format!("key_{n}"), 1).await })
    });
    let mut recorded = 0;
    for person in people.collect::<Vec<_>>() {
        recorded += usize::from(person.await.unwrap() == Labelled::Recorded);
    }
    assert_eq!(recorded, 2);
}
