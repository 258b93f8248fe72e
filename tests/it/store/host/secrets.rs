//! Secrets at rest: the database does not reveal them, and they stay readable after a key rotation.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use jiff::Timestamp;
use rstest::rstest;
use touchstone_host::ports::host_secrets::{AUDIT_CHECKPOINTS, Reencrypt};
use touchstone_host::ports::idempotency::{
    IdempotencyBegin, IdempotencyClaim, IdempotencyCompletion,
};
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::vault::{Vault, VaultError};
use touchstone_host::store::database::Database;
use touchstone_host::system::SystemIds;
use touchstone_kit::keys::SecretKey;
use touchstone_kit::sealing::{Sealed, SealingKey, owner};
use touchstone_kit::webhook::Secret;
use touchstone_ratings::ports::badges::IssuerKeyRecord;
use touchstone_ratings::ports::notices::{NoticeWebhook, SealedSecrets};
use touchstone_ratings::rules::notice::schedule::EndpointHealth;
use touchstone_ratings::store as rating_store;
use touchstone_runs::store as run_store;

use crate::store::ratings::{decision, key, organization};
use crate::store::webhooks::webhook;
use crate::store::{Engine, Engine::*, TestStore, at, record, tenant};
use crate::support::host_keys;

const OLD: [u8; 32] = [1; 32];
const NEW: [u8; 32] = [2; 32];

const CURRENT: &str = "canary-current-secret-41ab";
const PREVIOUS: &str = "canary-previous-secret-9c02";
const CALLBACK: &str = "canary-callback-secret-77fe";
const ANSWER: &str = "canary-answer-secret-d3d8";
const CANARIES: [&str; 4] = [CURRENT, PREVIOUS, CALLBACK, ANSWER];

fn claim(key: u8, owner: &str) -> IdempotencyClaim {
    IdempotencyClaim {
        tenant: "acme".into(),
        endpoint: "POST /v1/webhooks".to_owned(),
        key_hash: [key; 32],
        digest: [1; 32],
        owner: owner.to_owned(),
    }
}

fn answer() -> String {
    format!("{{\"secret\":\"{ANSWER}\"}}")
}

async fn replayed(store: &Database, key: u8) -> Result<String, StoreError> {
    let claim = claim(key, "again");
    match store.begin(&claim, at(1), Duration::from_secs(9)).await? {
        IdempotencyBegin::Replay { body, .. } => Ok(String::from_utf8(body.to_vec()).unwrap()),
        other => panic!("no answer was kept: {other:?}"),
    }
}

/// Stores every kind of secret; returns the one that the host generated.
async fn furnish(store: &Database) -> [u8; 32] {
    let mut subscription = webhook("wh_1", "acme");
    subscription.secrets.current = Secret::kept(PREVIOUS.to_owned());
    assert!(
        run_store::webhooks::create(store, &subscription, 9)
            .await
            .unwrap()
    );
    let known = subscription.secrets.clone();
    let rotated = known
        .clone()
        .rotated(Secret::kept(CURRENT.to_owned()), at(90));
    let (acme, id) = (tenant("acme"), "wh_1".into());
    assert!(
        run_store::webhooks::replace_secrets(store, &acme, &id, &known, &rotated)
            .await
            .unwrap()
    );
    let mut callback = webhook("wh_2", "acme");
    callback.secrets.current = Secret::kept(CALLBACK.to_owned());
    let run = record("run_1", "acme", 1);
    let key = claim(2, "a");
    store
        .begin(&key, at(0), Duration::from_secs(9))
        .await
        .unwrap();
    let completes = IdempotencyCompletion {
        claim: key,
        status: 201,
        body: format!("{{\"callbackSecret\":\"{CALLBACK}\"}}").into(),
    };
    let created =
        run_store::runs::create_with_callback(store, &run, Some(&callback), Some(&completes));
    created.await.unwrap();
    let key = claim(1, "a");
    store
        .begin(&key, at(0), Duration::from_secs(9))
        .await
        .unwrap();
    let completion = IdempotencyCompletion {
        claim: key,
        status: 201,
        body: answer().into(),
    };
    store.complete(&completion).await.unwrap();
    store.host_secret("tokens", [77; 32]).await.unwrap()
}

async fn assert_readable(store: &Database) {
    let found = run_store::webhooks::find(store, &tenant("acme"), &"wh_1".into()).await;
    let secrets = found.unwrap().unwrap().secrets;
    let previous = secrets.previous.unwrap().0;
    assert_eq!(
        (secrets.current.expose(), previous.expose()),
        (CURRENT, PREVIOUS)
    );
    assert_eq!(replayed(store, 1).await.unwrap(), answer());
    assert!(replayed(store, 2).await.unwrap().contains(CALLBACK));
}

async fn assert_hidden(database: &TestStore, host_secret: &[u8; 32]) {
    let raw = database.raw().await;
    for canary in CANARIES {
        assert!(!raw.holds(canary.as_bytes()), "the database shows {canary}");
    }
    assert!(
        !raw.holds(host_secret),
        "the database shows a secret of the host"
    );
    assert!(raw.holds(b"hooks.example"), "no canary was checked");
}

#[rstest]
#[tokio::test]
async fn no_secret_can_be_read_from_the_database(#[values(Sqlite, Postgres)] engine: Engine) {
    let Some(database) = engine.database().await else {
        return;
    };
    let store = database.open().await;
    let host_secret = furnish(&store).await;
    assert_readable(&store).await;
    assert_hidden(&database, &host_secret).await;
    // Another replica with the same key.
    assert_readable(&*database.open().await).await;
    // The callback is claimed with its secret once the run has ended.
    let claimed = run_store::webhooks::find(&store, &tenant("acme"), &"wh_1".into()).await;
    assert!(claimed.is_ok());
}

#[rstest]
#[tokio::test]
async fn another_key_reads_nothing_and_writes_nothing(#[values(Sqlite, Postgres)] engine: Engine) {
    let Some(database) = engine.database().await else {
        return;
    };
    let store = database.open().await;
    furnish(&store).await;
    let stranger = database.open_with(host_keys::of(&[NEW])).await.unwrap();
    let refused = |refusal: StoreError| {
        assert!(matches!(
            refusal,
            StoreError::Undecryptable {
                source: Sealed::OtherKey,
                ..
            }
        ));
    };
    refused(stranger.host_secret("tokens", [0; 32]).await.unwrap_err());
    refused(replayed(&stranger, 1).await.unwrap_err());
    refused(
        run_store::webhooks::list(&stranger, &tenant("acme"))
            .await
            .unwrap_err(),
    );
    refused(stranger.reencrypt(Reencrypt::All).await.unwrap_err());
    assert_readable(&store).await;
    // A secret does not decrypt in another secret's row either.
    database
        .execute(
            "UPDATE webhook SET secret = (SELECT secret FROM webhook WHERE id = 'wh_2') WHERE id = 'wh_1'"
                .to_owned(),
        )
        .await;
    let moved = run_store::webhooks::find(&store, &tenant("acme"), &"wh_1".into()).await;
    assert!(matches!(
        moved,
        Err(StoreError::Undecryptable {
            source: Sealed::Changed,
            ..
        })
    ));
}

/// Rewrites rows as an earlier version wrote them.
async fn make_plain(database: &TestStore) {
    let hex = |text: &str| {
        text.bytes()
            .map(|it| format!("{it:02x}"))
            .collect::<String>()
    };
    let bytes = |text: &str| match database {
        TestStore::Sqlite(_) => format!("x'{}'", hex(text)),
        TestStore::Postgres(_) => format!("'\\x{}'::bytea", hex(text)),
    };
    for sql in [
        format!(
            "UPDATE webhook SET secret = '{CURRENT}', previous_secret = '{PREVIOUS}', sealed = FALSE WHERE id = 'wh_1'"
        ),
        format!("UPDATE webhook SET secret = '{CALLBACK}', sealed = FALSE WHERE id = 'wh_2'"),
        format!(
            "UPDATE idempotency SET body = {}, sealed = FALSE",
            bytes(&answer())
        ),
        format!(
            "UPDATE host_secret SET secret = {} WHERE name = 'tokens'",
            bytes(&"t".repeat(32))
        ),
    ] {
        database.execute(sql).await;
    }
}

#[rstest]
#[tokio::test]
async fn secrets_of_an_earlier_version_are_encrypted_and_its_host_secrets_replaced(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let store = database.open().await;
    furnish(&store).await;
    make_plain(&database).await;
    assert!(database.raw().await.holds(CURRENT.as_bytes()));
    let found = run_store::webhooks::find(&store, &tenant("acme"), &"wh_1".into()).await;
    assert_eq!(found.unwrap().unwrap().secrets.current.expose(), CURRENT);

    let plain = [b't'; 32];
    let secret = store.host_secret("tokens", [78; 32]).await.unwrap();
    assert_eq!(secret, [78; 32], "copies of the database have the old key");
    assert_eq!(store.reencrypt(Reencrypt::Plaintext).await.unwrap(), 4);
    assert_eq!(store.reencrypt(Reencrypt::Plaintext).await.unwrap(), 0);
    let found = run_store::webhooks::find(&store, &tenant("acme"), &"wh_1".into()).await;
    assert_eq!(found.unwrap().unwrap().secrets.current.expose(), CURRENT);
    assert_eq!(replayed(&store, 1).await.unwrap(), answer());
    drop(store);
    assert_hidden(&database, &plain).await;
}

#[rstest]
#[tokio::test]
async fn a_rotation_can_be_interrupted_anywhere(#[values(Sqlite, Postgres)] engine: Engine) {
    let Some(database) = engine.database().await else {
        return;
    };
    let before = database.open_with(host_keys::of(&[OLD])).await.unwrap();
    let host_secret = furnish(&before).await;
    let signs = before.host_secret(AUDIT_CHECKPOINTS, [5; 32]).await;
    let signs = signs.unwrap();
    // Both keys are in the file: everything is readable, and new secrets use the new key.
    let both = database
        .open_with(host_keys::of(&[NEW, OLD]))
        .await
        .unwrap();
    assert_readable(&both).await;
    let key = claim(3, "b");
    both.begin(&key, at(0), Duration::from_secs(9))
        .await
        .unwrap();
    let completion = IdempotencyCompletion {
        claim: key,
        status: 200,
        body: "{}".into(),
    };
    both.complete(&completion).await.unwrap();
    assert_eq!(
        both.host_secret("tokens", [0; 32]).await.unwrap(),
        host_secret
    );
    // Two subscriptions, two responses, a host secret, the digest key and the checkpoint key.
    assert_eq!(both.reencrypt(Reencrypt::All).await.unwrap(), 7);
    assert_eq!(both.reencrypt(Reencrypt::All).await.unwrap(), 0);
    let after = database.open_with(host_keys::of(&[NEW])).await.unwrap();
    assert_readable(&after).await;
    assert_eq!(replayed(&after, 3).await.unwrap(), "{}");
    assert_ne!(
        after.host_secret("tokens", [0; 32]).await.unwrap(),
        host_secret
    );
    let kept = after.host_secret(AUDIT_CHECKPOINTS, [0; 32]).await.unwrap();
    assert_eq!(kept, signs, "earlier signatures verify");
    assert!(
        run_store::webhooks::list(&before, &tenant("acme"))
            .await
            .is_err(),
        "the old key no longer decrypts"
    );
    assert_hidden(&database, &host_secret).await;
}

/// Hosts on PostgreSQL without a key file used to keep the key in the database.
#[rstest]
#[tokio::test]
async fn a_request_cannot_be_guessed_from_its_digest_and_is_recognised_after_a_rotation(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    let Some(database) = engine.database().await else {
        return;
    };
    let lease = Duration::from_secs(9);
    let asked = IdempotencyClaim {
        digest: [0xd7; 32],
        ..claim(9, "a")
    };
    let other = IdempotencyClaim {
        digest: [0xd8; 32],
        ..claim(9, "b")
    };
    let before = database.open_with(host_keys::of(&[OLD])).await.unwrap();
    let begun = before.begin(&asked, at(0), lease).await.unwrap();
    assert_eq!(begun, IdempotencyBegin::Fresh);
    assert!(!database.raw().await.holds(&asked.digest), "in flight");
    let completion = IdempotencyCompletion {
        claim: asked.clone(),
        status: 200,
        body: "{}".into(),
    };
    before.complete(&completion).await.unwrap();
    assert!(!database.raw().await.holds(&asked.digest), "answered");

    let both = database.open_with(host_keys::of(&[NEW, OLD])).await;
    let rotated = both.unwrap().reencrypt(Reencrypt::All).await.unwrap();
    assert_eq!(rotated, 2, "the answer and the key of the digests");
    let after = database.open_with(host_keys::of(&[NEW])).await.unwrap();
    let same = after.begin(&asked, at(1), lease).await.unwrap();
    assert!(matches!(same, IdempotencyBegin::Replay { .. }), "{same:?}");
    let mismatch = after.begin(&other, at(1), lease).await.unwrap();
    assert_eq!(mismatch, IdempotencyBegin::Mismatch);

    // Earlier versions stored the plain digest.
    let hex = "d7".repeat(32);
    let plain = match &database {
        TestStore::Sqlite(_) => format!("x'{hex}'"),
        TestStore::Postgres(_) => format!("'\\x{hex}'::bytea"),
    };
    let sql = format!("UPDATE idempotency SET digest = {plain}");
    database.execute(sql).await;
    let same = after.begin(&asked, at(2), lease).await.unwrap();
    assert!(matches!(same, IdempotencyBegin::Replay { .. }), "{same:?}");
    let mismatch = after.begin(&other, at(2), lease).await.unwrap();
    assert_eq!(mismatch, IdempotencyBegin::Mismatch);
}

#[rstest]
#[tokio::test]
async fn a_key_in_the_database_is_given_up(#[values(Sqlite, Postgres)] engine: Engine) {
    const KEY: [u8; 32] = *b"canary-key-in-the-database-32byt";
    let Some(database) = engine.database().await else {
        return;
    };
    let store = database.open().await;
    let founded = organization("o");
    let (first_key, created) = (key("o", [1; 32]), decision("create"));
    let added =
        rating_store::organizations::add_organization(&store, &founded, &first_key, &created);
    added.await.unwrap();
    let number = rating_store::organizations::organization(&store, "o")
        .await
        .unwrap()
        .unwrap()
        .number;
    let sealing = SealingKey::of(&KEY);
    let seal = |owner: &str, secret: &[u8]| sealing.seal([3; 12], owner, secret).unwrap();
    let subscription = NoticeWebhook {
        organization: number,
        id: "w".to_owned(),
        url: "https://hooks.example/n".parse().unwrap(),
        events: Vec::new(),
        secrets: SealedSecrets {
            current: seal(&owner::notice_webhook("w"), CURRENT.as_bytes()),
            fingerprint: "f".to_owned(),
            previous: Some((
                seal(&owner::notice_webhook("w"), PREVIOUS.as_bytes()),
                at(9),
            )),
        },
        created_at: at(0),
        health: EndpointHealth::default(),
    };
    assert!(
        rating_store::notices::add_notice_webhook(&store, &subscription, 9)
            .await
            .unwrap()
    );
    rating_store::notices::rotate_notice_webhook(&store, &subscription, &subscription.secrets)
        .await
        .unwrap();
    let secret = SecretKey::from_random([4; 32]);
    let issuer = IssuerKeyRecord {
        public: secret.public(),
        sealed: seal(&owner::issuer("o"), &secret.to_octets()),
        created_at: Timestamp::UNIX_EPOCH,
        retired_at: None,
        compromised: false,
    };
    rating_store::badges::add_issuer_key(&store, number, &issuer)
        .await
        .unwrap();
    let hex: String = KEY.iter().map(|it| format!("{it:02x}")).collect();
    let blob = match engine {
        Sqlite => format!("x'{hex}'"),
        Postgres => format!("'\\x{hex}'::bytea"),
    };
    database
        .execute(format!(
            "INSERT INTO host_secret (name, secret) VALUES ('sealing', {blob})"
        ))
        .await;

    assert_eq!(store.reencrypt(Reencrypt::Plaintext).await.unwrap(), 2);
    assert_eq!(store.reencrypt(Reencrypt::Plaintext).await.unwrap(), 0);
    let vault = Vault::new(host_keys::usual(), Arc::new(SystemIds));
    let kept = rating_store::notices::notice_webhook(&store, number, "w")
        .await
        .unwrap()
        .unwrap()
        .secrets;
    for (sealed, secret) in [
        (kept.current, CURRENT),
        (kept.previous.unwrap().0, PREVIOUS),
    ] {
        let opened = vault.open(&owner::notice_webhook("w"), &sealed).unwrap();
        assert_eq!(opened, secret.as_bytes());
    }
    let kept = &rating_store::badges::issuer_keys(&store, number)
        .await
        .unwrap()[0]
        .sealed;
    let opened = vault.open(&owner::issuer("o"), kept).unwrap();
    assert_eq!(opened, secret.to_octets());
    drop(store);
    let raw = database.raw().await;
    assert!(!raw.holds(&KEY), "the key is still in the database");
    let text = STANDARD_NO_PAD.encode(KEY);
    assert!(!raw.holds(text.as_bytes()));
}

#[test]
fn a_secret_is_decrypted_with_the_key_and_for_the_owner_it_was_encrypted_for() {
    let vault = |secrets: &[[u8; 32]]| Vault::new(host_keys::of(secrets), Arc::new(SystemIds));
    let sealed = vault(&[OLD]).seal("a", b"canary").unwrap();
    assert_eq!(vault(&[OLD]).open("a", &sealed).unwrap(), b"canary");
    assert_eq!(vault(&[NEW, OLD]).open("a", &sealed).unwrap(), b"canary");
    let other = vault(&[NEW]).open("a", &sealed).unwrap_err();
    assert!(matches!(other, VaultError::Sealed(Sealed::OtherKey)));
    let elsewhere = vault(&[OLD]).open("b", &sealed).unwrap_err();
    assert!(matches!(elsewhere, VaultError::Sealed(Sealed::Changed)));
}
