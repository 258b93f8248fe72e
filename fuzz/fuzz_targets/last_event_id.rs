//! `Last-Event-ID`: for any value, a reader continues at a position within the log or starts at its
//! beginning.

#![no_main]

use std::cell::RefCell;
use std::sync::Arc;

use libfuzzer_sys::{Corpus, fuzz_target};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use touchstone_fuzz::{EVENTS, event_id, run_record};
use touchstone_host::ports::run_log::StoredEvent;
use touchstone_host::store::database::Database;
use touchstone_host::system::host_key::HostKeyFile;
use touchstone_kit::ids::RunId;
use touchstone_openwop::wire::log::Numbering;
use touchstone_runs::service::log_reader::LogReader;

struct Log {
    runtime: Runtime,
    reader: LogReader,
    run: RunId,
    _folder: TempDir,
}

thread_local! {
    static LOG: RefCell<Option<Log>> = const { RefCell::new(None) };
}

fn log() -> Log {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let folder = TempDir::new().expect("a folder");
    let location = format!("sqlite:{}", folder.path().join("fuzz.db").display());
    let record = run_record();
    let run = record.run_id.clone();
    let store: Arc<Database> = runtime.block_on(async {
        let keys = HostKeyFile::own(folder.path().join("secrets.pem"));
        let store = touchstone::database::open(&location, Arc::new(keys)).await.expect("a store");
        touchstone_runs::store::runs::create(&store, &record, None).await.expect("a run");
        let lease = std::time::Duration::from_secs(60);
        let claim = touchstone_runs::store::queue::claim_run(&store, &record.tenant, &run, "fuzz", lease).await.expect("a claim").expect("the run");
        let events: Vec<StoredEvent> = (1..=EVENTS)
            .map(|sequence| StoredEvent {
                sequence,
                kind: "eval.scored".into(),
                body: format!(
                    r#"{{"eventId":"{}","runId":"{run}","type":"eval.scored","sequence":{sequence},"payload":{{}}}}"#,
                    event_id(sequence)
                )
                .into(),
            })
            .collect();
        touchstone_runs::store::runs::append(&store, &run, claim.fence, &events, true).await.expect("a log");
        store
    });
    Log {
        runtime,
        reader: LogReader::new(store),
        run,
        _folder: folder,
    }
}

fuzz_target!(|data: &[u8]| -> Corpus {
    // Other bytes never pass the HTTP layer, which treats them as a missing header.
    let Ok(text) = std::str::from_utf8(data) else {
        return Corpus::Reject;
    };
    LOG.with_borrow_mut(|kept| {
        let log = kept.get_or_insert_with(log);
        let position = log
            .runtime
            .block_on(log.reader.position(&log.run, Numbering::STORED, text))
            .expect("the store works");
        if let Some(position) = position
            && !text.bytes().all(|octet| octet.is_ascii_digit())
        {
            assert!(
                (1..=EVENTS).contains(&position),
                "{text:?} is position {position}"
            );
            assert_eq!(text, event_id(position), "an id of another event");
        }
    });
    Corpus::Keep
});
