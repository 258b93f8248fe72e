//! Keys and blobs.

use rstest::rstest;

use super::{Engine, Engine::*, at, open, tenant};
use touchstone::ports::{KeyRecord, PreviousSecret, Rotation, StoreError};

fn key(id: &str, owner: &str, created: i64) -> KeyRecord {
    KeyRecord {
        id: id.into(),
        tenant: tenant(owner),
        secret_hash: [7; 32],
        previous: None,
        roles: vec!["release-manager".to_owned()],
        principal: Some("dana".to_owned()),
        test: true,
        whole: false,
        scopes: vec!["runs:create".to_owned(), "ž🦀".to_owned()],
        created_at: at(created),
        expires_at: Some(at(created + 60)),
        revoked_at: None,
    }
}

/// `key create --scope all` used to grant the host operator's scopes too.
#[rstest]
#[tokio::test]
async fn a_key_of_every_scope_loses_the_operator_scopes_with_the_upgrade(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    // The former meaning of `all`, in the stored order of scopes.
    let all = "agents:read agents:write appeals:file appeals:review approvals:respond artifacts:read \
        assessments:read assessments:review assessments:write audit:read badges:read badges:revoke \
        config:read config:write deploy:pause deploy:promote deploy:rollback events:read events:write \
        gates:write manifest:read metrics:read organizations:write packs:install packs:publish \
        packs:yank packs:yank-revert runs:cancel runs:create runs:read suites:write webhooks:manage";
    let names = |texts: &str| texts.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let all = KeyRecord {
        scopes: names(all),
        ..key("k1", "acme", 0)
    };
    let by_name = KeyRecord {
        scopes: names("metrics:read organizations:write"),
        ..key("k2", "acme", 0)
    };
    for key in [&all, &by_name] {
        store.add_key(key).await.unwrap();
    }
    database
        .execute("DELETE FROM _sqlx_migrations WHERE version = 28".to_owned())
        .await;
    let store = database.open().await;
    let scopes = async |id: &str| store.key(&id.into()).await.unwrap().unwrap().scopes;
    let mut kept = all.scopes;
    kept.retain(|scope| !by_name.scopes.contains(scope));
    assert_eq!(scopes("k1").await, kept);
    assert_eq!(scopes("k2").await, by_name.scopes);
}

/// The first versions had a shorter list.
#[rstest]
#[case::before_ratings(
    "approvals:respond artifacts:read audit:read deploy:pause deploy:promote deploy:rollback gates:write manifest:read \
     metrics:read packs:install packs:publish packs:yank packs:yank-revert runs:cancel runs:create runs:read suites:write \
     webhooks:manage"
)]
#[case::before_appeals(
    "agents:read agents:write approvals:respond artifacts:read assessments:read assessments:review assessments:write audit:read \
     badges:read badges:revoke config:read config:write deploy:pause deploy:promote deploy:rollback events:read events:write \
     gates:write manifest:read metrics:read organizations:write packs:install packs:publish packs:yank packs:yank-revert \
     runs:cancel runs:create runs:read suites:write webhooks:manage"
)]
#[tokio::test]
async fn an_older_key_of_every_scope_loses_the_operator_scopes_too(
    #[values(Sqlite, Postgres)] engine: Engine,
    #[case] all: &str,
) {
    open!(engine => database, store);
    let all = KeyRecord {
        scopes: all.split(' ').map(str::to_owned).collect(),
        ..key("k1", "acme", 0)
    };
    store.add_key(&all).await.unwrap();
    for change in [
        "DROP TABLE aaaf_agent_principal",
        "DELETE FROM _sqlx_migrations WHERE version = 43",
    ] {
        database.execute(change.to_owned()).await;
    }
    let store = database.open().await;
    let kept = store.key(&"k1".into()).await.unwrap().unwrap().scopes;
    let mut expected = all.scopes;
    expected.retain(|scope| scope != "metrics:read" && scope != "organizations:write");
    assert_eq!(kept, expected);
}

#[rstest]
#[tokio::test]
async fn keys_are_kept_listed_and_revoked(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let (old, new, foreign) = (
        key("k1", "acme", 2),
        key("k2", "acme", 1),
        key("k3", "globex", 0),
    );
    for key in [&old, &new, &foreign] {
        store.add_key(key).await.unwrap();
    }
    let again = store.add_key(&key("k1", "globex", 0)).await;
    assert!(matches!(again, Err(StoreError::Exists(_))));
    assert_eq!(store.key(&"k1".into()).await.unwrap(), Some(old.clone()));
    assert_eq!(store.key(&"k9".into()).await.unwrap(), None);
    let acme = store.keys(Some(&tenant("acme"))).await.unwrap();
    assert_eq!(acme, [new.clone(), old.clone()]);
    assert_eq!(store.keys(None).await.unwrap(), [foreign, new, old.clone()]);

    let rotation = Rotation {
        secret_hash: [8; 32],
        previous_until: at(50),
        expires_at: None,
    };
    assert!(store.rotate_key(&"k1".into(), &rotation).await.unwrap());
    let once = store.key(&"k1".into()).await.unwrap().unwrap();
    let previous = |hash, until| PreviousSecret {
        hash,
        valid_until: until,
    };
    assert_eq!(
        (once.secret_hash, once.previous, once.expires_at),
        ([8; 32], Some(previous([7; 32], at(50))), old.expires_at)
    );
    let rotation = Rotation {
        secret_hash: [9; 32],
        previous_until: at(60),
        expires_at: Some(at(1000)),
    };
    assert!(store.rotate_key(&"k1".into(), &rotation).await.unwrap());
    let twice = store.key(&"k1".into()).await.unwrap().unwrap();
    assert_eq!(
        (twice.secret_hash, twice.previous, twice.expires_at),
        ([9; 32], Some(previous([8; 32], at(60))), Some(at(1000)))
    );
    assert!(!store.rotate_key(&"k9".into(), &rotation).await.unwrap());

    assert!(store.revoke_key(&"k1".into(), at(5)).await.unwrap());
    assert!(store.revoke_key(&"k1".into(), at(9)).await.unwrap());
    assert!(!store.revoke_key(&"k9".into(), at(5)).await.unwrap());
    let revoked = store.key(&"k1".into()).await.unwrap().unwrap();
    assert_eq!(revoked.revoked_at, Some(at(5)), "the first time is kept");
    assert!(!store.rotate_key(&"k1".into(), &rotation).await.unwrap());
}

#[rstest]
#[tokio::test]
async fn blobs_keep_their_octets(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let octets: Vec<u8> = (0..5_000_000u32).map(|n| (n % 251) as u8).collect();
    for (digest, octets) in [("sha256-a", octets.as_slice()), ("sha256-b", b"")] {
        store.put(digest, octets).await.unwrap();
        store.put(digest, octets).await.unwrap();
        assert_eq!(store.get(digest).await.unwrap().unwrap(), octets);
    }
    assert_eq!(store.get("sha256-c").await.unwrap(), None);
}
