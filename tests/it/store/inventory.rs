//! Installed packs and suites.

use rstest::rstest;
use serde_json::json;

use super::{Engine, Engine::*, at, open, tenant};
use touchstone_host::ports::store::StoreError;
use touchstone_packs::ports::inventory::{InstallRecord, SuiteRecord};
use touchstone_packs::store as pack_store;

fn pack(owner: &str, version: &str, integrity: &str) -> InstallRecord {
    InstallRecord {
        tenant: tenant(owner),
        name: "acme.triage".to_owned(),
        version: version.to_owned(),
        integrity: integrity.to_owned(),
        installed_at: at(0),
        facts: json!({"signature": "verified", "degraded": ["ž🦀"], "z": 1, "a": 2}),
    }
}

fn suite(owner: &str, id: &str, digest: &str, pack: Option<&str>) -> SuiteRecord {
    SuiteRecord {
        tenant: tenant(owner),
        suite_id: id.to_owned(),
        version: "1.0.0".to_owned(),
        digest: digest.to_owned(),
        scoring: None,
        task_count: 20,
        pack: pack.map(|version| format!("acme.triage@{version}")),
        signed: pack.is_some(),
        added_at: at(0),
        bytes: Some(12),
    }
}

#[rstest]
#[tokio::test]
async fn a_pack_comes_and_goes_with_its_suites(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let acme = tenant("acme");
    let installed = pack("acme", "1.0.0", "sha256-1");
    let suites = [
        suite("acme", "a", "sha256-a", Some("1.0.0")),
        suite("acme", "b", "sha256-b", Some("1.0.0")),
    ];
    pack_store::inventory::install(&store, &installed, &suites)
        .await
        .unwrap();
    pack_store::inventory::install(&store, &installed, &suites)
        .await
        .unwrap();
    let of = async |owner, name| {
        pack_store::inventory::installs_of(&store, &tenant(owner), name)
            .await
            .unwrap()
    };
    assert_eq!(
        of("acme", "acme.triage").await,
        std::slice::from_ref(&installed)
    );
    assert_eq!(of("acme", "acme.other").await, []);
    assert_eq!(of("globex", "acme.triage").await, []);
    assert_eq!(
        pack_store::inventory::installs(&store, &acme)
            .await
            .unwrap(),
        [installed]
    );
    assert_eq!(
        pack_store::inventory::suites(&store, &acme).await.unwrap(),
        suites
    );
    assert_eq!(
        pack_store::inventory::suite(&store, &acme, "b", "1.0.0")
            .await
            .unwrap(),
        Some(suites[1].clone())
    );
    assert_eq!(
        pack_store::inventory::suite(&store, &acme, "b", "2.0.0")
            .await
            .unwrap(),
        None
    );

    assert!(
        !pack_store::inventory::remove_suite(&store, &acme, "a", "1.0.0")
            .await
            .unwrap()
    );
    assert!(
        pack_store::inventory::remove(&store, &acme, "acme.triage", "1.0.0", &[])
            .await
            .unwrap()
    );
    assert!(
        !pack_store::inventory::remove(&store, &acme, "acme.triage", "1.0.0", &[])
            .await
            .unwrap()
    );
    assert_eq!(
        pack_store::inventory::installs(&store, &acme)
            .await
            .unwrap(),
        []
    );
    assert_eq!(
        pack_store::inventory::suites(&store, &acme).await.unwrap(),
        []
    );
}

#[rstest]
#[tokio::test]
async fn an_installation_is_all_or_nothing(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let acme = tenant("acme");
    let there = suite("acme", "b", "sha256-b", None);
    pack_store::inventory::add_suite(&store, &there)
        .await
        .unwrap();
    let refused = pack_store::inventory::install(
        &store,
        &pack("acme", "1.0.0", "sha256-1"),
        &[
            suite("acme", "a", "sha256-a", Some("1.0.0")),
            suite("acme", "b", "sha256-other", Some("1.0.0")),
        ],
    )
    .await;
    assert!(matches!(refused, Err(StoreError::Exists(_))), "{refused:?}");
    assert_eq!(
        pack_store::inventory::installs(&store, &acme)
            .await
            .unwrap(),
        []
    );
    assert_eq!(
        pack_store::inventory::suites(&store, &acme).await.unwrap(),
        [there]
    );

    pack_store::inventory::install(&store, &pack("acme", "1.0.0", "sha256-1"), &[])
        .await
        .unwrap();
    let other = pack("acme", "1.0.0", "sha256-2");
    let more = [suite("acme", "c", "sha256-c", Some("1.0.0"))];
    let refused = pack_store::inventory::install(&store, &other, &more).await;
    assert!(matches!(refused, Err(StoreError::Exists(_))), "{refused:?}");
    assert_eq!(
        pack_store::inventory::suite(&store, &acme, "c", "1.0.0")
            .await
            .unwrap(),
        None
    );
}

#[rstest]
#[tokio::test]
async fn a_suite_stays_while_anything_still_brings_it(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let acme = tenant("acme");
    let imported = suite("acme", "a", "sha256-a", None);
    pack_store::inventory::add_suite(&store, &imported)
        .await
        .unwrap();
    pack_store::inventory::add_suite(&store, &imported)
        .await
        .unwrap();
    let one = suite("acme", "a", "sha256-a", Some("1.0.0"));
    let two = suite("acme", "a", "sha256-a", Some("1.1.0"));
    for (version, suite) in [("1.0.0", &one), ("1.1.0", &two)] {
        let pack = pack("acme", version, version);
        pack_store::inventory::install(&store, &pack, std::slice::from_ref(suite))
            .await
            .unwrap();
    }
    let shown = async || {
        pack_store::inventory::suite(&store, &acme, "a", "1.0.0")
            .await
            .unwrap()
    };
    assert_eq!(shown().await, Some(one.clone()), "the signed suite is kept");
    assert_eq!(
        pack_store::inventory::suites(&store, &acme).await.unwrap(),
        [one],
        "and is listed once"
    );
    pack_store::inventory::remove(&store, &acme, "acme.triage", "1.0.0", &[])
        .await
        .unwrap();
    assert_eq!(shown().await, Some(two));
    pack_store::inventory::remove(&store, &acme, "acme.triage", "1.1.0", &[])
        .await
        .unwrap();
    assert_eq!(shown().await, Some(imported), "unsigned again");
    assert!(
        pack_store::inventory::remove_suite(&store, &acme, "a", "1.0.0")
            .await
            .unwrap()
    );
    assert_eq!(shown().await, None);
    let other = suite("acme", "a", "sha256-other", None);
    pack_store::inventory::add_suite(&store, &other)
        .await
        .unwrap();
    let clash = suite("acme", "a", "sha256-a", None);
    let refused = pack_store::inventory::add_suite(&store, &clash).await;
    assert!(matches!(refused, Err(StoreError::Exists(_))));
}

#[rstest]
#[tokio::test]
async fn tenants_never_see_each_other(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let globex = tenant("globex");
    let suites = [suite("acme", "a", "sha256-a", Some("1.0.0"))];
    let installed = pack("acme", "1.0.0", "sha256-1");
    pack_store::inventory::install(&store, &installed, &suites)
        .await
        .unwrap();
    let imported = suite("acme", "b", "sha256-b", None);
    pack_store::inventory::add_suite(&store, &imported)
        .await
        .unwrap();

    assert_eq!(
        pack_store::inventory::installs(&store, &globex)
            .await
            .unwrap(),
        []
    );
    assert_eq!(
        pack_store::inventory::suites(&store, &globex)
            .await
            .unwrap(),
        []
    );
    assert_eq!(
        pack_store::inventory::suite(&store, &globex, "a", "1.0.0")
            .await
            .unwrap(),
        None
    );
    assert!(
        !pack_store::inventory::remove(&store, &globex, "acme.triage", "1.0.0", &[])
            .await
            .unwrap()
    );
    assert!(
        !pack_store::inventory::remove_suite(&store, &globex, "b", "1.0.0")
            .await
            .unwrap()
    );

    // The same names in another tenant do not conflict, even with different content.
    let other = pack("globex", "1.0.0", "sha256-2");
    let others = [suite("globex", "a", "sha256-z", Some("1.0.0"))];
    pack_store::inventory::install(&store, &other, &others)
        .await
        .unwrap();
    assert!(
        pack_store::inventory::remove(&store, &globex, "acme.triage", "1.0.0", &[])
            .await
            .unwrap()
    );
    let acme = tenant("acme");
    assert_eq!(
        pack_store::inventory::installs(&store, &acme)
            .await
            .unwrap(),
        [installed]
    );
    assert_eq!(
        pack_store::inventory::suites(&store, &acme)
            .await
            .unwrap()
            .len(),
        2
    );
}

#[rstest]
#[tokio::test]
async fn lists_are_in_the_order_of_versions(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let versions = ["1.10.0", "1.9.0", "1.9.0-rc.1", "0.1.0"];
    for version in versions {
        let suite = SuiteRecord {
            version: version.to_owned(),
            ..suite("acme", "a", version, Some(version))
        };
        pack_store::inventory::install(&store, &pack("acme", version, version), &[suite])
            .await
            .unwrap();
    }
    let acme = tenant("acme");
    let packs = pack_store::inventory::installs(&store, &acme)
        .await
        .unwrap();
    let suites = pack_store::inventory::suites(&store, &acme).await.unwrap();
    let ascending = ["0.1.0", "1.9.0-rc.1", "1.9.0", "1.10.0"];
    assert!(packs.iter().map(|pack| &pack.version).eq(ascending));
    assert!(suites.iter().map(|suite| &suite.version).eq(ascending));
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn racing_installations_agree_on_the_content_of_a_suite(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => database, store);
    let replicas = [store, database.open().await];
    let racers = (0..8).map(|n| {
        let store = std::sync::Arc::clone(&replicas[n % 2]);
        let version = format!("1.{n}.0");
        let pack = pack("acme", &version, &version);
        let suites = [suite("acme", "a", &version, Some(&version))];
        tokio::spawn(async move { pack_store::inventory::install(&store, &pack, &suites).await })
    });
    let mut installed = 0;
    for racer in racers.collect::<Vec<_>>() {
        match racer.await.unwrap() {
            Ok(()) => installed += 1,
            Err(refused) => assert!(matches!(refused, StoreError::Exists(_)), "{refused:?}"),
        }
    }
    assert_eq!(installed, 1);
    let packs = pack_store::inventory::installs(&replicas[0], &tenant("acme"))
        .await
        .unwrap();
    assert_eq!(packs.len(), 1);
}
