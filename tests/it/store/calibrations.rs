//! Judges compared with people.

use rstest::rstest;
use serde_json::json;
use touchstone::domain::audit::{Decision, Outcome};
use touchstone::domain::eval::rubric::calibration::Calibration;

use super::{Engine, Engine::*, at, open, tenant};

fn calibration(identity: &str, spearman: f64) -> Calibration {
    serde_json::from_value(json!({
        "provider": "p", "model": "examiner-1", "identity": identity, "suite": "a.evals.b@1.0.0", "samples": 120,
        "spearman": spearman, "interval": {"low": 0.1, "high": 0.9}, "ties": {"judge": 3, "human": 0}, "costUsd": 0.25,
        "calibratedAt": at(1), "validUntil": at(2),
    }))
    .unwrap()
}

#[rstest]
#[tokio::test]
async fn the_newest_one_of_a_judge_is_kept_for_its_tenant(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let decision = Decision {
        at: at(1),
        principal: "key_1".to_owned(),
        action: "judge:calibrate".to_owned(),
        resource: "sha256-a".to_owned(),
        outcome: Outcome::Done,
        reasons: Vec::new(),
        decided_on: None,
        run_id: None,
    };
    let ours = tenant("acme");
    for kept in [
        calibration("sha256-b", 0.5),
        calibration("sha256-a", 0.6),
        calibration("sha256-b", 0.9),
    ] {
        store
            .keep_calibration(&ours, &kept, &decision)
            .await
            .unwrap();
    }
    let found = store.calibration(&ours, "sha256-b").await.unwrap();
    assert_eq!(found, Some(calibration("sha256-b", 0.9)));
    let all = store.calibrations(&ours).await.unwrap();
    assert_eq!(
        all,
        [calibration("sha256-a", 0.6), calibration("sha256-b", 0.9)]
    );
    let theirs = tenant("globex");
    assert_eq!(store.calibration(&theirs, "sha256-b").await.unwrap(), None);
    assert!(store.calibrations(&theirs).await.unwrap().is_empty());
    assert_eq!(store.audit_entries(&ours, 0, 10).await.unwrap().len(), 3);
}
