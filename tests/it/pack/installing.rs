//! Installation is atomic and per tenant.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::support::host_keys;
use touchstone::kinds::{KINDS, PACK_FORMAT};
use touchstone_deployments::service::queries::DeploymentQueries;
use touchstone_host::store::database::Database;
use touchstone_host::system::{SystemClock, SystemIds};
use touchstone_kit::error::ErrorCode;
use touchstone_kit::ids::TenantId;
use touchstone_openwop::schema::Document;
use touchstone_packs::rules::build;
use touchstone_packs::rules::build::Files;
use touchstone_packs::rules::build::template::new_pack;
use touchstone_packs::rules::verify::{Fetched, Policy, SigningMethod, verify};
use touchstone_packs::service::packs::{Actor, Candidate, ImportError, Packs};
use touchstone_runs::service::library::Library;
use touchstone_runs::service::projections::Projections;
use touchstone_runs::service::storage::Storage;
use touchstone_runs::storage::StorageLimits;

use super::publishing::{key, trust};

const NAME: &str = "vendor.bench.labels";

fn candidate(method: SigningMethod, change: impl FnOnce(&mut Files)) -> Candidate {
    let mut files = new_pack(NAME).unwrap();
    change(&mut files);
    let signed = build::sign(&files, method, &key(), "bench-publisher").unwrap();
    let fetched = Fetched {
        served: Some(&signed.served),
        tgz: &signed.tgz,
        signature: Some(&signed.signature),
    };
    let pack = verify(
        None,
        fetched,
        &trust(),
        &Policy::default(),
        None,
        PACK_FORMAT,
    )
    .unwrap();
    Candidate {
        pack,
        tgz: Bytes::from(signed.tgz),
    }
}

fn edit(files: &mut Files, file: &str, change: impl FnOnce(&mut Value)) {
    let mut document: Value = serde_json::from_slice(&files[file]).unwrap();
    change(&mut document);
    files.insert(file.to_owned(), document.to_string().into_bytes());
}

fn version(number: &'static str) -> impl FnOnce(&mut Files) {
    move |files| {
        edit(files, "pack.json", |manifest| {
            manifest["version"] = number.into()
        });
        edit(files, "evals/label.json", |suite| {
            suite["version"] = number.split('-').next().unwrap().into();
        });
    }
}

struct World {
    packs: Packs,
    library: Library,
    tenant: TenantId,
    by: Actor,
    _folder: tempfile::TempDir,
}

async fn world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<Database> = Arc::new(
        Database::sqlite(
            &folder.path().join("store.db"),
            host_keys::usual(),
            &touchstone::database::SCHEMAS,
        )
        .await
        .unwrap(),
    );
    let deployments = Arc::new(DeploymentQueries {
        store: store.clone(),
        fixtures: false,
    });
    let storage = Storage::new(
        store.clone(),
        Arc::new(SystemClock),
        Arc::new(Projections::new(store.clone())),
        KINDS,
        deployments.clone(),
        StorageLimits::default(),
    );
    World {
        packs: Packs::new(
            store.clone(),
            Arc::new(SystemClock),
            Arc::new(SystemIds),
            PACK_FORMAT,
            Arc::new(storage),
            deployments,
        ),
        library: Library::new(store, KINDS),
        tenant: TenantId::from("one"),
        by: Actor {
            tenant: TenantId::from("one"),
            principal: "dana".to_owned(),
        },
        _folder: folder,
    }
}

#[tokio::test]
async fn an_installed_pack_is_listed_usable_and_can_be_removed() {
    let world = world().await;
    let candidate = candidate(SigningMethod::Ed25519, |_| {});
    let facts = world.packs.install(&world.by, &candidate).await.unwrap();
    assert_eq!(
        world.packs.list(&world.tenant).await.unwrap(),
        std::slice::from_ref(&facts)
    );
    assert!(facts.suites[0].signed);

    let suites = world.packs.suites(&world.tenant).await.unwrap();
    assert_eq!(suites.len(), 1);
    assert!(suites[0].signed);
    assert_eq!(suites[0].pack.as_deref(), Some("vendor.bench.labels@0.1.0"));
    let suite = world
        .library
        .suite(&suites[0].digest)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(suite.tasks.len(), 4);

    let inventory = world.packs.agents(&world.tenant).await.unwrap();
    assert!(Document::AgentInventoryResponse.is_valid(&serde_json::to_value(&inventory).unwrap()));
    assert_eq!(inventory.agents[0].agent_id, "vendor.bench.labels.default");
    let agent = "vendor.bench.labels.default".into();
    let loaded = world
        .library
        .installed_agent(&world.tenant, &agent, None)
        .await
        .unwrap()
        .unwrap();
    assert!(loaded.definition.prompt.contains("label"));

    world
        .packs
        .remove(&world.by, &candidate.pack.id)
        .await
        .unwrap();
    assert!(world.packs.list(&world.tenant).await.unwrap().is_empty());
    assert!(world.packs.suites(&world.tenant).await.unwrap().is_empty());
    let gone = world
        .packs
        .remove(&world.by, &candidate.pack.id)
        .await
        .unwrap_err();
    assert_eq!(gone.code, ErrorCode::NotFound);
    // A running run still finds its agent.
    let kept = world
        .library
        .agent(&candidate.pack.integrity, &agent)
        .await
        .unwrap();
    assert!(kept.is_some());
}

#[tokio::test]
async fn tenants_do_not_see_each_others_packs() {
    let world = world().await;
    let other = TenantId::from("two");
    world
        .packs
        .install(&world.by, &candidate(SigningMethod::Ed25519, |_| {}))
        .await
        .unwrap();
    assert!(world.packs.list(&other).await.unwrap().is_empty());
    assert!(world.packs.agents(&other).await.unwrap().agents.is_empty());
    assert!(world.packs.suites(&other).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_version_never_changes() {
    let world = world().await;
    let one = candidate(SigningMethod::Ed25519, |_| {});
    world.packs.install(&world.by, &one).await.unwrap();
    world.packs.install(&world.by, &one).await.unwrap();
    let changed = candidate(SigningMethod::Ed25519, |files| {
        files.insert("prompts/agent.md".into(), b"Always say billing.".to_vec());
    });
    let refused = world.packs.install(&world.by, &changed).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Conflict);
    assert_eq!(world.packs.list(&world.tenant).await.unwrap().len(), 1);

    // Another pack version with the same suite version but another suite: rejected as a whole.
    let half = candidate(SigningMethod::Ed25519, |files| {
        edit(files, "pack.json", |manifest| {
            manifest["version"] = "0.2.0".into()
        });
        edit(files, "evals/label.json", |suite| {
            suite["thresholds"] = json!({"passScore": 0})
        });
    });
    assert!(world.packs.install(&world.by, &half).await.is_err());
    assert_eq!(world.packs.list(&world.tenant).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_manifest_signature_leaves_the_suites_unsigned() {
    let world = world().await;
    world
        .packs
        .install(&world.by, &candidate(SigningMethod::Manual, |_| {}))
        .await
        .unwrap();
    assert!(!world.packs.suites(&world.tenant).await.unwrap()[0].signed);
}

#[tokio::test]
async fn of_several_versions_the_inventory_shows_the_one_runs_would_use() {
    let world = world().await;
    for number in ["0.9.0", "0.10.0", "1.0.0-rc.1"] {
        let candidate = candidate(SigningMethod::Ed25519, version(number));
        world.packs.install(&world.by, &candidate).await.unwrap();
    }
    let inventory = world.packs.agents(&world.tenant).await.unwrap();
    assert_eq!((inventory.total, inventory.agents.len()), (1, 1));
    assert_eq!(inventory.agents[0].pack_version, "0.10.0");
    let agent = "vendor.bench.labels.default".into();
    let used = world
        .library
        .installed_agent(&world.tenant, &agent, None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(used.version, "0.10.0");
}

#[tokio::test]
async fn missing_requirements_of_an_agent_are_shown() {
    let world = world().await;
    let candidate = candidate(SigningMethod::Ed25519, |files| {
        edit(files, "pack.json", |manifest| {
            manifest["peerDependencies"]["host.agentRuntime"] = "supported".into();
            manifest["agents"][0]["role"] = "assistant".into();
            manifest["agents"][0]["memoryShape"] = json!({"longTerm": true});
        });
    });
    let facts = world.packs.install(&world.by, &candidate).await.unwrap();
    assert_eq!(facts.degraded, ["host.agentRuntime"]);
    let agent = &world.packs.agents(&world.tenant).await.unwrap().agents[0];
    assert_eq!(agent.degraded, ["host.agentRuntime"]);
    assert_eq!(agent.memory_degraded, Some(true));
}

#[tokio::test]
async fn an_imported_suite_is_unsigned_and_checked() {
    let world = world().await;
    let bytes = new_pack(NAME).unwrap()["evals/label.json"].clone();
    let record = world
        .packs
        .import_suite(&world.by, &bytes, None)
        .await
        .unwrap();
    assert!(!record.signed && record.pack.is_none());
    world
        .packs
        .import_suite(&world.by, &bytes, None)
        .await
        .unwrap();

    let mut changed: Value = serde_json::from_slice(&bytes).unwrap();
    changed["thresholds"] = json!({"passScore": 0});
    let outcome = world
        .packs
        .import_suite(&world.by, changed.to_string().as_bytes(), None)
        .await;
    assert!(matches!(outcome, Err(ImportError::Problem(p)) if p.code == ErrorCode::Conflict));

    changed["tasks"][1]["taskId"] = changed["tasks"][0]["taskId"].clone();
    let outcome = world
        .packs
        .import_suite(&world.by, changed.to_string().as_bytes(), None)
        .await;
    assert!(
        matches!(outcome, Err(ImportError::Faults(faults)) if faults[0].pointer == "/tasks/1/taskId")
    );

    let id = &record.suite_id;
    world
        .packs
        .remove_suite(&world.by, id, &record.version)
        .await
        .unwrap();
    assert!(
        world
            .packs
            .remove_suite(&world.by, id, &record.version)
            .await
            .is_err()
    );
}
