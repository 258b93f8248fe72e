//! Agent card checks, and watched cards.

use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::json;
use touchstone_agent_cards::ports::watches::{CardWatch, DueCard};
use touchstone_agent_cards::rules::history::{AlertBelow, CardScoring};
use touchstone_agent_cards::store as card_store;

use super::{Engine, Engine::*, at, open, tenant};

const HERE: &str = "https://agents.example/";

fn look(id: &str, url: &str) -> CardScoring {
    serde_json::from_value(json!({
        "id": id, "url": url, "scoredAt": at(1), "live": true, "digest": "00",
        "scores": {
            "compliance": {"total": 93.33, "rating": "EXCELLENT"}, "trust": {"total": 33, "rating": "LOW_TRUST"},
            "availability": {"total": 85, "rating": "AVAILABLE"}, "productionReady": false,
            "blockers": ["compliance", "trust"], "findings": {"URL_INVALID": 1},
        },
    }))
    .unwrap()
}

fn watch(url: &str) -> CardWatch {
    CardWatch {
        url: url.to_owned(),
        every_hours: 6,
        live: true,
        created_at: at(1),
        alert_below: AlertBelow::default(),
    }
}

#[rstest]
#[tokio::test]
async fn card_scorings_are_listed_newest_first_by_tenant_and_url(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let (ours, theirs) = (tenant("acme"), tenant("globex"));
    for n in 0..103 {
        let kept = look(&format!("look_{n}"), HERE);
        card_store::keep_card_look(&store, &ours, &kept, None)
            .await
            .unwrap();
    }
    let other = look("look_other", "https://agents.example/b");
    card_store::keep_card_look(&store, &ours, &other, None)
        .await
        .unwrap();
    let found = card_store::card_looks(&store, &ours, HERE, 2)
        .await
        .unwrap();
    assert_eq!(found, [look("look_102", HERE), look("look_101", HERE)]);
    let all = card_store::card_looks(&store, &ours, HERE, 1000)
        .await
        .unwrap();
    assert_eq!(all.len(), 100, "the oldest checks are deleted");
    // The last check with scores is kept.
    for n in 0..105 {
        let mut gone = look(&format!("gone_{n}"), HERE);
        gone.scores = None;
        assert!(
            !card_store::keep_card_look(&store, &ours, &gone, None)
                .await
                .unwrap()
        );
    }
    let all = card_store::card_looks(&store, &ours, HERE, 1000)
        .await
        .unwrap();
    assert_eq!((all.len(), all[100].id.as_str()), (101, "look_102"));
    assert!(
        card_store::card_looks(&store, &theirs, HERE, 9)
            .await
            .unwrap()
            .is_empty()
    );
}

#[rstest]
#[tokio::test]
async fn watched_cards_are_due_in_turn(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let (ours, theirs) = (tenant("acme"), tenant("globex"));
    let later = |hours| at(1) + SignedDuration::from_hours(hours);
    let other = "https://agents.example/b";
    assert!(
        card_store::watch_card(&store, &ours, &watch(HERE), later(2), 2)
            .await
            .unwrap()
    );
    assert!(
        card_store::watch_card(&store, &ours, &watch(other), later(1), 2)
            .await
            .unwrap()
    );
    assert!(
        card_store::watch_card(&store, &theirs, &watch(HERE), later(3), 2)
            .await
            .unwrap()
    );
    let third = watch("https://agents.example/c");
    assert!(
        !card_store::watch_card(&store, &ours, &third, later(1), 2)
            .await
            .unwrap()
    );
    let mut changed = watch(HERE);
    changed.every_hours = 1;
    assert!(
        card_store::watch_card(&store, &ours, &changed, later(2), 2)
            .await
            .unwrap(),
        "in its own place"
    );

    let listed = card_store::card_watches(&store, &ours).await.unwrap();
    assert_eq!(
        listed,
        [(changed.clone(), later(2)), (watch(other), later(1))]
    );
    let due = |tenant, watch| DueCard { tenant, watch };
    assert!(
        card_store::due_cards(&store, at(1), 9)
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        card_store::due_cards(&store, later(3), 2).await.unwrap(),
        [
            due(ours.clone(), watch(other)),
            due(ours.clone(), changed.clone())
        ]
    );
    // Another writer changed the card in the meantime: that change wins.
    let put_off = card_store::card_due(&store, &ours, other, Timestamp::MAX, Some(later(5)));
    put_off.await.unwrap();
    assert_eq!(
        card_store::due_cards(&store, later(1), 9)
            .await
            .unwrap()
            .len(),
        1
    );
    let put_off = card_store::card_due(&store, &ours, other, Timestamp::MAX, Some(later(1)));
    put_off.await.unwrap();
    assert_eq!(
        card_store::due_cards(&store, later(1), 9)
            .await
            .unwrap()
            .len(),
        0
    );
    let put_off = card_store::card_due(&store, &ours, other, Timestamp::MAX, None);
    put_off.await.unwrap();
    assert!(card_store::unwatch_card(&store, &ours, HERE).await.unwrap());
    assert!(!card_store::unwatch_card(&store, &ours, HERE).await.unwrap());
    assert_eq!(
        card_store::due_cards(&store, later(3), 9).await.unwrap(),
        [due(theirs, watch(HERE))]
    );
}
