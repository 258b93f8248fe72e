//! The rating tables.

use std::collections::HashMap;
use std::sync::Arc;

use rstest::rstest;
use serde_json::{Map, json};
use touchstone_host::audit::{Decision, Outcome};
use touchstone_host::ports::keys::KeyRecord;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_ratings::ports::Position;
use touchstone_ratings::ports::agents::{AgentNumber, AgentRecord, KnownAgent};
use touchstone_ratings::ports::events::{EventFilter, NewEvent, Origin, PROJECTED};
use touchstone_ratings::ports::organizations::{OrganizationNumber, OrganizationRecord};
use touchstone_ratings::rules::agent::{Profile, Status};
use touchstone_ratings::rules::evidence::Recorder;
use touchstone_ratings::rules::organization::{Auditor, Status as OrganizationStatus};
use touchstone_ratings::store as rating_store;

use super::{Engine, Engine::*, at, open, tenant};

pub fn organization(id: &str) -> OrganizationRecord {
    OrganizationRecord {
        number: OrganizationNumber::default(),
        id: id.to_owned(),
        tenant: tenant(id),
        name: "Ácme ‖".to_owned(),
        status: OrganizationStatus::Active,
        private_badges: false,
        auditors: vec![Auditor {
            tenant: tenant("auditors"),
            principal: "kim".to_owned(),
        }],
        config: Map::from_iter([("assessment_window_days".to_owned(), json!(14))]),
        created_at: at(0),
        updated_at: at(0),
        revision: 0,
    }
}

pub fn key(id: &str, hash: [u8; 32]) -> KeyRecord {
    KeyRecord {
        id: format!("key{id}").as_str().into(),
        tenant: tenant(id),
        secret_hash: hash,
        previous: None,
        scopes: vec!["agents:*".to_owned()],
        roles: Vec::new(),
        principal: None,
        test: false,
        whole: true,
        created_at: at(0),
        expires_at: None,
        revoked_at: None,
    }
}

pub fn decision(action: &str) -> Decision {
    Decision {
        at: at(1),
        principal: "operator".to_owned(),
        action: action.to_owned(),
        resource: "o".to_owned(),
        outcome: Outcome::Done,
        reasons: Vec::new(),
        decided_on: None,
        run_id: None,
    }
}

fn agent(id: &str, name: &str, seconds: i64) -> AgentRecord {
    AgentRecord {
        number: AgentNumber::default(),
        id: id.to_owned(),
        name: name.to_owned(),
        archived: false,
        suspended: false,
        observed: false,
        profile: Profile {
            domains: vec!["code".to_owned()],
            ..Profile::default()
        },
        created_at: at(seconds),
        updated_at: at(seconds),
        revision: 0,
    }
}

/// Two organizations with one agent each, with equal names.
async fn furnish(store: &Arc<Database>) -> [(OrganizationNumber, AgentNumber); 2] {
    let mut made = Vec::new();
    for (id, hash) in [("a", [1; 32]), ("b", [2; 32])] {
        let (organization, key) = (organization(id), key(id, hash));
        let founded = decision("create");
        let added =
            rating_store::organizations::add_organization(store, &organization, &key, &founded);
        added.await.unwrap();
        let number = rating_store::organizations::organization(store, id)
            .await
            .unwrap()
            .unwrap()
            .number;
        rating_store::agents::add_agent(store, number, &agent(&format!("agent-{id}"), "triage", 1))
            .await
            .unwrap();
        let agent = rating_store::agents::agent(store, number, &format!("agent-{id}"))
            .await
            .unwrap()
            .unwrap();
        made.push((number, agent.number));
    }
    made.try_into().unwrap()
}

#[rstest]
#[tokio::test]
async fn a_scheduled_assessment_is_claimed_once_until_it_is_tried_again(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let [(_, agent), (_, other)] = furnish(&store).await;
    let claim = async |agent, before, now| {
        let claimed = rating_store::upkeep::claim_reassessment(&store, agent, at(before), at(now));
        claimed.await.unwrap()
    };
    assert!(claim(agent, 0, 10).await);
    assert!(!claim(agent, 5, 11).await, "another worker tried at 10");
    assert!(claim(other, 5, 11).await);
    assert!(claim(agent, 10, 12).await);
    assert!(!claim(agent, 11, 13).await);
}

#[rstest]
#[tokio::test]
async fn an_organization_is_kept_with_its_key_and_changed_by_one_at_a_time(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    furnish(&store).await;
    let another = OrganizationRecord {
        id: "c".to_owned(),
        ..organization("a")
    };
    let (its_key, made) = (key("c", [3; 32]), decision("create"));
    let again = rating_store::organizations::add_organization(&store, &another, &its_key, &made);
    assert!(matches!(again.await, Err(StoreError::Exists(_))));
    assert_eq!(
        store.key_by_hash(&[3; 32]).await.unwrap(),
        None,
        "its key was not stored"
    );
    assert_eq!(
        store.key_by_hash(&[1; 32]).await.unwrap(),
        Some(key("a", [1; 32]))
    );
    let found = rating_store::organizations::organization_of(&store, &tenant("a"))
        .await
        .unwrap()
        .unwrap();
    let mut expected = organization("a");
    expected.number = found.number;
    assert_eq!(found, expected);
    assert_eq!(
        rating_store::organizations::organization(&store, "x")
            .await
            .unwrap(),
        None
    );
    let mut changed = found.clone();
    changed.name = "Acme".to_owned();
    changed.status = OrganizationStatus::Suspended;
    rating_store::organizations::change_organization(&store, &changed, &decision("change"))
        .await
        .unwrap();
    let stale =
        rating_store::organizations::change_organization(&store, &found, &decision("change")).await;
    assert!(matches!(stale, Err(StoreError::Stale)));
    let now = rating_store::organizations::organization(&store, "a")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (now.name.as_str(), now.status, now.revision),
        ("Acme", OrganizationStatus::Suspended, 1)
    );
    let entries = store.audit_entries(&tenant("a"), 0, 10).await.unwrap();
    assert_eq!(entries.len(), 2, "created, and changed once");
}

#[rstest]
#[tokio::test]
async fn a_key_is_found_by_the_hash_it_has_and_the_one_it_had(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    furnish(&store).await;
    let rotation = touchstone_host::ports::keys::Rotation {
        secret_hash: [9; 32],
        previous_until: at(50),
        expires_at: None,
    };
    assert!(store.rotate_key(&"keya".into(), &rotation).await.unwrap());
    for hash in [[1; 32], [9; 32]] {
        let found = store.key_by_hash(&hash).await.unwrap().unwrap();
        assert_eq!(found.id.as_str(), "keya");
    }
    let host_key = KeyRecord {
        whole: false,
        id: "host".into(),
        ..key("a", [8; 32])
    };
    store.add_key(&host_key).await.unwrap();
    assert_eq!(
        store.key_by_hash(&[8; 32]).await.unwrap(),
        None,
        "others say their id"
    );
}

#[rstest]
#[tokio::test]
async fn agents_are_visible_only_to_their_organization(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let [(ours, agent_a), (theirs, _)] = furnish(&store).await;
    let taken = rating_store::agents::add_agent(&store, ours, &agent("agent-c", "triage", 2)).await;
    assert!(matches!(taken, Err(StoreError::Exists(_))));
    for (id, name) in [("agent-d", "d"), ("agent-c", "c")] {
        rating_store::agents::add_agent(&store, ours, &agent(id, name, 2))
            .await
            .unwrap();
    }
    let ids = async |status, after: Option<&Position>, limit| {
        let listed = rating_store::agents::agents(&store, ours, status, after, limit)
            .await
            .unwrap();
        listed.into_iter().map(|it| it.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(None, None, 10).await, ["agent-a", "agent-c", "agent-d"]);
    let after = Position {
        created_at: at(2),
        id: "agent-c".to_owned(),
    };
    assert_eq!(ids(None, Some(&after), 10).await, ["agent-d"]);
    assert_eq!(
        rating_store::agents::agent(&store, theirs, "agent-a")
            .await
            .unwrap(),
        None
    );
    let known =
        rating_store::agents::known_agents(&store, ours, &["agent-a", "agent-b", "agent-x"])
            .await
            .unwrap();
    let expected = KnownAgent {
        number: agent_a,
        closed: false,
    };
    assert_eq!(known, HashMap::from([("agent-a".to_owned(), expected)]));

    let mut archived = rating_store::agents::agent(&store, ours, "agent-a")
        .await
        .unwrap()
        .unwrap();
    archived.archived = true;
    let foreign = rating_store::agents::change_agent(&store, theirs, &archived).await;
    assert!(
        matches!(foreign, Err(StoreError::Stale)),
        "not theirs to change"
    );
    rating_store::agents::change_agent(&store, ours, &archived)
        .await
        .unwrap();
    assert!(matches!(
        rating_store::agents::change_agent(&store, ours, &archived).await,
        Err(StoreError::Stale)
    ));
    assert_eq!(ids(Some(Status::Archived), None, 10).await, ["agent-a"]);
    let both = ["agent-c", "agent-d"];
    assert_eq!(ids(Some(Status::Enrolled), None, 10).await, both);
    let mut suspended = rating_store::agents::agent(&store, ours, "agent-d")
        .await
        .unwrap()
        .unwrap();
    suspended.suspended = true;
    rating_store::agents::change_agent(&store, ours, &suspended)
        .await
        .unwrap();
    let read = rating_store::agents::agent(&store, ours, "agent-d")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(read.status(), Status::Suspended);
    assert_eq!(ids(Some(Status::Suspended), None, 10).await, ["agent-d"]);
    assert_eq!(ids(Some(Status::Active), None, 10).await, ["agent-c"]);
    let known = rating_store::agents::known_agents(&store, ours, &["agent-d"])
        .await
        .unwrap();
    assert!(known["agent-d"].closed);
    let mut renamed = rating_store::agents::agent(&store, ours, "agent-c")
        .await
        .unwrap()
        .unwrap();
    renamed.name = "d".to_owned();
    assert!(matches!(
        rating_store::agents::change_agent(&store, ours, &renamed).await,
        Err(StoreError::Exists(_))
    ));
    renamed.name = "triage".to_owned();
    rating_store::agents::change_agent(&store, ours, &renamed)
        .await
        .unwrap();
}

#[rstest]
#[tokio::test]
async fn a_principal_stays_an_agents_when_the_agent_is_called_otherwise(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let [(ours, _), (theirs, _)] = furnish(&store).await;
    let mut changed = rating_store::agents::agent(&store, ours, "agent-a")
        .await
        .unwrap()
        .unwrap();
    changed.name = "Second".to_owned();
    changed.profile.openwop_agent = Some("acme.agents.Triage@1.0.0".parse().unwrap());
    changed.profile.keys = vec!["key1".to_owned(), "key2".to_owned()];
    rating_store::agents::change_agent(&store, ours, &changed)
        .await
        .unwrap();
    let mut changed = rating_store::agents::agent(&store, ours, "agent-a")
        .await
        .unwrap()
        .unwrap();
    changed.name = "third".to_owned();
    changed.profile.openwop_agent = None;
    changed.profile.keys = vec!["key2".to_owned()];
    changed.archived = true;
    rating_store::agents::change_agent(&store, ours, &changed)
        .await
        .unwrap();
    let is_agent = async |store: &Arc<Database>, principal: &str, key: &str| {
        rating_store::agents::is_agent(store, ours, principal, &key.into())
            .await
            .unwrap()
    };
    for name in [
        "agent-a",
        "triage",
        "Triage",
        "second",
        "third",
        "acme.agents.triage",
    ] {
        assert!(is_agent(&store, name, "key9").await, "{name}");
    }
    assert!(is_agent(&store, "dana", "key2").await);
    for (principal, key) in [("dana", "key1"), ("key1", "key1"), ("agent-b", "key9")] {
        assert!(!is_agent(&store, principal, key).await, "{principal}");
    }
    let foreign = rating_store::agents::is_agent(&store, theirs, "second", &"key2".into()).await;
    assert!(!foreign.unwrap());
}

const API: Origin<'static> = Origin {
    source: "api",
    recorder: Recorder::Person,
    principal: "dana",
};

fn event(agent: AgentNumber, id: &str, seconds: i64) -> NewEvent {
    NewEvent {
        id: id.to_owned(),
        agent,
        kind: "tool_invoked",
        occurred_at: at(seconds),
        task: "t".to_owned(),
        assessment: None,
        data: json!({"task_id": "t"}).to_string(),
    }
}

#[rstest]
#[tokio::test]
async fn events_are_recorded_once_and_read_in_their_order(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let [(ours, agent_a), (theirs, agent_b)] = furnish(&store).await;
    // More rows than one statement takes, including a duplicate.
    let mut batch: Vec<NewEvent> = (0..700)
        .map(|n| event(agent_a, &format!("e{n}"), 1000 - n))
        .collect();
    batch.push(event(agent_a, "e5", 5000));
    let new = rating_store::events::record_events(&store, ours, &batch, API, at(7))
        .await
        .unwrap();
    assert_eq!(new.iter().filter(|new| **new).count(), 700);
    assert!(!new[700]);
    let again = rating_store::events::record_events(&store, ours, &batch[..3], API, at(8))
        .await
        .unwrap();
    assert_eq!(again, [false, false, false]);
    let same_id =
        rating_store::events::record_events(&store, theirs, &[event(agent_b, "e5", 1)], API, at(8))
            .await;
    assert_eq!(same_id.unwrap(), [true], "ids are unique per organization");
    let one = rating_store::events::event(&store, ours, "e5")
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (one.occurred_at, one.recorded_at, one.agent.as_str()),
        (at(995), at(7), "agent-a")
    );
    assert_eq!(
        (one.recorder, one.recorded_by.as_deref()),
        (Recorder::Person, Some("dana"))
    );
    let named = rating_store::events::events_named(&store, ours, &["e7", "e5", "none"]).await;
    let mut named: Vec<String> = named.unwrap().into_iter().map(|it| it.id).collect();
    named.sort();
    assert_eq!(named, ["e5", "e7"]);
    assert_eq!(
        rating_store::events::events_named(&store, theirs, &["e7"])
            .await
            .unwrap(),
        []
    );
    assert_eq!(
        rating_store::events::event(&store, theirs, "e6")
            .await
            .unwrap(),
        None
    );

    let filter = EventFilter {
        agent: Some(agent_a),
        ..EventFilter::default()
    };
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = rating_store::events::events(&store, ours, &filter, after, 256)
            .await
            .unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.position());
        seen.extend(page.into_iter().map(|it| it.occurred_at));
    }
    assert_eq!(seen.len(), 700);
    assert!(seen.is_sorted());
    assert!(
        rating_store::events::events(&store, theirs, &filter, None, 9)
            .await
            .unwrap()
            .is_empty()
    );
    let window = EventFilter {
        from: Some(at(400)),
        to: Some(at(410)),
        ..EventFilter::default()
    };
    let within = rating_store::events::events(&store, ours, &window, None, 100)
        .await
        .unwrap();
    assert_eq!(within.len(), 10);
    let kind = EventFilter {
        kind: Some("task_completed".to_owned()),
        ..EventFilter::default()
    };
    assert!(
        rating_store::events::events(&store, ours, &kind, None, 9)
            .await
            .unwrap()
            .is_empty()
    );
}

#[rstest]
#[tokio::test]
async fn events_without_a_recorder_are_of_the_host_or_unknown(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    let [(ours, agent), _] = furnish(&store).await;
    let projected = Origin {
        source: PROJECTED,
        ..API
    };
    for (id, origin) in [("api", API), ("run", projected)] {
        let events = [event(agent, id, 1)];
        let recorded = rating_store::events::record_events(&store, ours, &events, origin, at(7));
        assert_eq!(recorded.await.unwrap(), [true]);
    }
    let forget = "UPDATE rating_event SET recorder = NULL, recorded_by = NULL";
    database.execute(forget.to_owned()).await;
    for (id, recorder) in [("api", Recorder::Unknown), ("run", Recorder::Host)] {
        let found = rating_store::events::event(&store, ours, id)
            .await
            .unwrap()
            .unwrap();
        assert_eq!((found.recorder, found.recorded_by), (recorder, None));
    }
}
