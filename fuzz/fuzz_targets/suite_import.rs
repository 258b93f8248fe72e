//! A file of another tool: rejected with a message, or imported as a valid suite, with every loss
//! reported once and with its location.

#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use touchstone::kinds::KINDS;
use touchstone_openwop::suite::MatchStrategy;
use touchstone_runs::rules::eval::import::{Fault, Format, Identity, convert};
use touchstone_runs::rules::eval::suite_rules::check_suite;

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some((which, file)) = data.split_first() else {
        return Corpus::Reject;
    };
    let formats = Format::ALL;
    let format = formats[usize::from(*which) % formats.len()];
    let strategy = if *which < 128 {
        MatchStrategy::Exact
    } else {
        MatchStrategy::Contains
    };
    let identity = Identity {
        suite_id: "vendor.acme.evals.fuzz".to_owned(),
        version: "1.0.0".to_owned(),
        target_agent_id: None,
        pass_score: None,
    };
    let _ = Format::of(file);
    let losses = match convert(file, format, strategy, &identity) {
        Ok(imported) => {
            assert!(
                check_suite(KINDS, &imported.suite).is_ok(),
                "what comes out is a suite"
            );
            imported.losses
        }
        Err(Fault::NoTasks(losses)) => losses,
        Err(fault) => {
            assert!(!fault.to_string().is_empty());
            return Corpus::Keep;
        }
    };
    for (n, loss) in losses.iter().enumerate() {
        assert!(loss.count > 0 && !loss.first.is_empty(), "{loss:?}");
        assert!(loss.left_out.len() <= loss.count, "{loss:?}");
        assert!(
            losses
                .iter()
                .skip(n + 1)
                .all(|other| other.what != loss.what),
            "reported twice: {loss:?}"
        );
    }
    Corpus::Keep
});
