//! Keys and blobs.

use rstest::rstest;

use crate::store::{Engine, Engine::*, at, open, tenant};
use touchstone_host::ports::keys::{KeyRecord, PreviousSecret, Rotation};
use touchstone_host::ports::store::StoreError;
use touchstone_packs::store as pack_store;

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
async fn blobs_are_stored_unchanged(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let bytes: Vec<u8> = (0..5_000_000u32).map(|n| (n % 251) as u8).collect();
    for (digest, bytes) in [("sha256-a", bytes.as_slice()), ("sha256-b", b"")] {
        pack_store::blobs::put(&store, digest, bytes).await.unwrap();
        pack_store::blobs::put(&store, digest, bytes).await.unwrap();
        assert_eq!(
            pack_store::blobs::get(&store, digest)
                .await
                .unwrap()
                .unwrap(),
            bytes
        );
    }
    assert_eq!(
        pack_store::blobs::get(&store, "sha256-c").await.unwrap(),
        None
    );
}
