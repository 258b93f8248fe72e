//! Judge calibrations.

use std::time::Duration;

use rstest::rstest;
use serde_json::json;
use touchstone_host::audit::{Decision, Outcome};
use touchstone_host::ports::store::StoreError;
use touchstone_kit::money::NanoUsd;
use touchstone_runs::rules::eval::rubric::attempt::{Attempt, Status};
use touchstone_runs::rules::eval::rubric::calibration::Calibration;
use touchstone_runs::store as run_store;

use crate::store::{Engine, Engine::*, at, open, tenant};

pub fn calibration(identity: &str, spearman: f64) -> Calibration {
    serde_json::from_value(json!({
        "provider": "p", "model": "examiner-1", "identity": identity, "suite": "a.evals.b@1.0.0", "samples": 120,
        "spearman": spearman, "interval": {"low": 0.1, "high": 0.9}, "ties": {"judge": 3, "human": 0}, "costUsd": 0.25,
        "calibratedAt": at(1), "validUntil": at(2),
    }))
    .unwrap()
}

const LEASE: Duration = Duration::from_secs(60);

pub fn attempt(id: &str, calibration: &Calibration) -> Attempt {
    Attempt {
        calibration_id: id.to_owned(),
        status: Status::Running,
        judge: calibration.judge.clone(),
        suite: calibration.suite.clone(),
        samples: 120,
        judged: 0,
        cost_usd: Some(NanoUsd::ZERO),
        max_cost_usd: NanoUsd(1),
        started_at: at(1),
        ended_at: None,
        calibration: None,
        failure: None,
    }
}

fn decision() -> Decision {
    Decision {
        at: at(1),
        principal: "key_1".to_owned(),
        action: "judge:calibrate".to_owned(),
        resource: "sha256-a".to_owned(),
        outcome: Outcome::Done,
        reasons: Vec::new(),
        decided_on: None,
        run_id: None,
    }
}

#[rstest]
#[tokio::test]
async fn the_newest_calibration_of_a_judge_is_stored_per_tenant(
    #[values(Sqlite, Postgres)] engine: Engine,
) {
    open!(engine => _database, store);
    let ours = tenant("acme");
    for (n, kept) in [
        calibration("sha256-b", 0.5),
        calibration("sha256-a", 0.6),
        calibration("sha256-b", 0.9),
    ]
    .into_iter()
    .enumerate()
    {
        let mut attempt = attempt(&format!("calibration_{n}"), &kept);
        run_store::calibrations::begin_attempt(&store, &ours, &attempt, LEASE, None)
            .await
            .unwrap();
        attempt.end(Ok(kept), at(2));
        run_store::calibrations::end_attempt(&store, &ours, &attempt, &decision())
            .await
            .unwrap();
        let found = run_store::calibrations::find_attempt(&store, &ours, &attempt.calibration_id)
            .await
            .unwrap()
            .unwrap();
        assert_eq!((found.attempt, found.held), (attempt, false));
    }
    let found = run_store::calibrations::find(&store, &ours, "sha256-b")
        .await
        .unwrap();
    assert_eq!(found, Some(calibration("sha256-b", 0.9)));
    let all = run_store::calibrations::list(&store, &ours).await.unwrap();
    assert_eq!(
        all,
        [calibration("sha256-a", 0.6), calibration("sha256-b", 0.9)]
    );
    let theirs = tenant("globex");
    assert_eq!(
        run_store::calibrations::find(&store, &theirs, "sha256-b")
            .await
            .unwrap(),
        None
    );
    assert!(
        run_store::calibrations::list(&store, &theirs)
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        run_store::calibrations::find_attempt(&store, &theirs, "calibration_0")
            .await
            .unwrap(),
        None
    );
    assert_eq!(store.audit_entries(&ours, 0, 10).await.unwrap().len(), 3);
}

#[rstest]
#[tokio::test]
async fn only_one_calibration_attempt_holds_the_lease(#[values(Sqlite, Postgres)] engine: Engine) {
    open!(engine => _database, store);
    let ours = tenant("acme");
    let calibration = calibration("sha256-a", 0.9);
    let mut held = attempt("calibration_1", &calibration);
    let next = attempt("calibration_2", &calibration);
    run_store::calibrations::begin_attempt(&store, &ours, &held, LEASE, None)
        .await
        .unwrap();
    let refused = run_store::calibrations::begin_attempt(&store, &ours, &next, LEASE, None).await;
    assert!(matches!(refused, Err(StoreError::Exists(_))), "{refused:?}");
    let elsewhere = tenant("globex");
    run_store::calibrations::begin_attempt(&store, &elsewhere, &next, LEASE, None)
        .await
        .unwrap();

    held.judged = 7;
    run_store::calibrations::renew_attempt(&store, &ours, &held, Duration::ZERO)
        .await
        .unwrap();
    let found = run_store::calibrations::find_attempt(&store, &ours, "calibration_1")
        .await
        .unwrap()
        .unwrap();
    assert_eq!((found.attempt.judged, found.held), (7, false));
    // A worker that sent no heartbeat has lost the calibration, whatever it has computed since.
    held.end(Ok(calibration), at(2));
    for lost in [
        run_store::calibrations::renew_attempt(&store, &ours, &held, LEASE).await,
        run_store::calibrations::end_attempt(&store, &ours, &held, &decision()).await,
    ] {
        assert!(matches!(lost, Err(StoreError::Fenced)), "{lost:?}");
    }
    assert!(
        run_store::calibrations::list(&store, &ours)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(store.audit_entries(&ours, 0, 10).await.unwrap().is_empty());
    run_store::calibrations::begin_attempt(&store, &ours, &next, LEASE, None)
        .await
        .unwrap();
    let found = run_store::calibrations::find_attempt(&store, &ours, "calibration_1")
        .await
        .unwrap()
        .unwrap();
    assert_eq!((found.attempt.judged, found.held), (7, false));
}
