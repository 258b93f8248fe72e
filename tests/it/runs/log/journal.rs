//! Appending to a log from outside an executor.

use std::sync::Arc;

use touchstone_host::system::{SystemClock, SystemIds};
use touchstone_kit::ids::{RunId, TenantId};
use touchstone_openwop::events::{Event, ModelRetried, NewEvent};
use touchstone_runs::rules::run::fold::{RunState, RunStatus};
use touchstone_runs::service::journal::{Journal, JournalError};

use crate::runs::bench::{Bench, echo, outline};

fn journal(bench: &Bench, owner: &str) -> Journal {
    Journal::new(
        bench.store.clone(),
        Arc::new(SystemClock),
        Arc::new(SystemIds),
        owner.to_owned(),
    )
}

/// An event that identifies its append.
fn entry(state: &RunState) -> Result<Vec<NewEvent>, JournalError> {
    Ok(vec![NewEvent::of_run(Event::ModelRetried(ModelRetried {
        attempt: 1,
        reason: "test".to_owned(),
        wait_ms: state.sequence,
    }))])
}

#[tokio::test]
async fn concurrent_appends_are_serialized_and_no_worker_claims_the_journal() {
    let bench = Bench::new(echo).await;
    let tenant = TenantId::from("acme");
    let run = RunId::from("run_deployments-1");
    let (a, b) = (journal(&bench, "a"), journal(&bench, "b"));
    for side in [&a, &b] {
        side.open(&tenant, &run, "deployments", "key")
            .await
            .unwrap();
    }
    let writes = (0..10).map(|n| {
        let side = if n % 2 == 0 { &a } else { &b };
        side.append(&tenant, &run, entry)
    });
    for written in futures_util::future::join_all(writes).await {
        written.unwrap();
    }
    let kinds: Vec<String> = outline(&bench.log(&run).await)
        .into_iter()
        .map(|(kind, _)| kind)
        .collect();
    assert_eq!(kinds.len(), 11);
    assert_eq!(
        kinds.iter().filter(|kind| *kind == "run.started").count(),
        1
    );
    assert_eq!(kinds[0], "run.started");
    assert_eq!(bench.state(&run).await.status, RunStatus::Running);
}

#[tokio::test]
async fn a_refused_append_changes_nothing_and_journals_are_hidden_from_other_tenants() {
    let bench = Bench::new(echo).await;
    let (tenant, run) = (TenantId::from("acme"), RunId::from("run_journal"));
    let journal = journal(&bench, "a");
    journal
        .open(&tenant, &run, "deployments", "key")
        .await
        .unwrap();
    let refused = journal
        .append(&tenant, &run, |_| Err(JournalError::Busy))
        .await;
    assert!(matches!(refused, Err(JournalError::Busy)));
    assert!(bench.log(&run).await.is_empty());
    let other = journal.append(&"other".into(), &run, entry).await;
    assert!(matches!(other, Err(JournalError::NoSuchRun)));
    // A rejected append does not keep the run locked.
    journal.append(&tenant, &run, entry).await.unwrap();
    assert_eq!(bench.log(&run).await.len(), 2);
}
