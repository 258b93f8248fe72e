//! A file of another tool: rejected with a message, or imported as a valid suite, with every loss
//! reported once and with its location. An imported suite can be exported. The first byte chooses the
//! format; the part after a NUL byte is the content of every file that the document names.

#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use touchstone::kinds::KINDS;
use touchstone_openwop::suite::MatchStrategy;
use touchstone_runs::rules::eval::export;
use touchstone_runs::rules::eval::import::{
    Columns, Fault, Files, Format, Identity, Imported, Options, Source, convert, pack, recognize,
};
use touchstone_runs::rules::eval::scoring_document::read::read_for;
use touchstone_runs::rules::eval::suite_rules::check_suite;

/// Every file has the same content.
struct Same<'a>(&'a [u8]);

impl Files for Same<'_> {
    fn read(&self, _name: &str) -> Result<Vec<u8>, String> {
        Ok(self.0.to_vec())
    }

    fn matching(&self, _pattern: &str) -> Result<Vec<String>, String> {
        let names = ["a.csv", "b.jsonl", "c.yaml"];
        Ok(names.map(str::to_owned).to_vec())
    }
}

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some((which, rest)) = data.split_first() else {
        return Corpus::Reject;
    };
    let end = rest.iter().position(|byte| *byte == 0).filter(|_| *which < 128);
    let (file, other) = rest.split_at(end.unwrap_or(rest.len()));
    let formats = Format::ALL;
    let format = formats[usize::from(*which) % formats.len()];
    let strategy = if *which & 64 == 0 {
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
    let columns = Columns::default();
    let _ = recognize(file, &columns);
    let files = Same(other.get(1..).unwrap_or_default());
    let source = Source {
        bytes: file,
        files: &files,
    };
    let options = Options {
        format,
        strategy,
        columns: &columns,
        identity: &identity,
    };
    let losses = match convert(&source, &options) {
        Ok(imported) => {
            check(&imported);
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

/// The suite and its scoring document are valid, and both can be exported.
fn check(imported: &Imported) {
    let suite = check_suite(KINDS, &imported.suite).expect("what comes out is a suite");
    let scoring = imported.scoring.as_ref().map(|scoring| {
        let read = read_for(scoring.to_string().as_bytes(), &suite);
        read.expect("what comes out is a scoring document").document
    });
    assert!(pack::files(imported).contains_key("pack.json"));
    for format in export::Format::ALL {
        export::export(&suite, scoring.as_ref(), format).expect("a suite can be written");
    }
}
