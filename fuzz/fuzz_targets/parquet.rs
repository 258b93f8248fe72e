//! A Parquet file: rejected with a reason, or imported as a valid suite within the limits. The
//! library has assertions that damaged files violate; the importer catches them.

#![no_main]

use std::sync::Once;

use libfuzzer_sys::fuzz_target;
use touchstone::kinds::KINDS;
use touchstone_openwop::suite::MatchStrategy;
use touchstone_runs::rules::eval::import::{
    Columns, Fault, Format, Identity, Options, Source, convert, recognize,
};
use touchstone_runs::rules::eval::suite_rules::check_suite;

static QUIET: Once = Once::new();

fuzz_target!(|data: &[u8]| {
    // The fuzzer's hook ends the process at a panic that is caught.
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    let mut file = b"PAR1".to_vec();
    file.extend_from_slice(data);
    let columns = Columns {
        input: Some("question".to_owned()),
        expected: Some("answer".to_owned()),
        id: None,
    };
    let _ = recognize(&file, &columns);
    let identity = Identity {
        suite_id: "vendor.acme.evals.fuzz".to_owned(),
        version: "1.0.0".to_owned(),
        target_agent_id: None,
        pass_score: None,
    };
    let options = Options {
        format: Format::Table,
        strategy: MatchStrategy::Exact,
        columns: &columns,
        identity: &identity,
    };
    let found = std::panic::catch_unwind(|| match convert(&Source::alone(&file), &options) {
        Ok(imported) => check_suite(KINDS, &imported.suite).is_ok(),
        Err(Fault::NoTasks(_)) => true,
        Err(fault) => !fault.to_string().is_empty(),
    });
    // The hook is off, so a panic of the importer itself would not be noticed.
    if !found.unwrap_or(false) {
        std::process::abort();
    }
});
