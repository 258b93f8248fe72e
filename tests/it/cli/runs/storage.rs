//! `run hold`, `run release`, `run delete` and `run usage`.

use serde_json::json;

use crate::cli::home::{Home, right_answers};

#[test]
fn content_that_is_not_retained_is_gone_after_the_command() {
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    let settings = std::fs::read_to_string(home.config()).unwrap();
    let retain = "\n[content]\nretain = \"never\"\n";
    std::fs::write(home.config(), format!("{settings}{retain}")).unwrap();
    let report = home.eval(&["--json"]).document();
    let run = home.run_of(&report);
    let shown = home.run(&["--json", "run", "show", &run, "--task", "thanks"]);
    let details = shown.document();
    assert_eq!(details["contentDeleted"], true, "{details}");
    assert_eq!(details.get("actual"), None);
    assert_eq!(details["score"], 1.0);
}

#[test]
fn a_run_is_deleted_unless_it_is_under_a_legal_hold() {
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    let run = home.run_of(&home.eval(&["--json"]).document());
    let used =
        |home: &Home| home.run(&["--json", "run", "usage"]).document()["runs"]["used"].clone();
    assert_eq!(used(&home), 1);

    let held = home.run(&["run", "hold", &run, "--reason", "case-17"]);
    assert_eq!(held.code, 0, "{}", held.stderr);
    let refused = home.run(&["run", "delete", &run]);
    assert_eq!(refused.code, 2, "{}", refused.stdout);
    assert!(refused.stderr.contains("legal hold"), "{}", refused.stderr);
    assert_eq!(used(&home), 1);

    let released = home.run(&["run", "release", &run]);
    assert_eq!(released.code, 0, "{}", released.stderr);
    let deleted = home.run(&["run", "delete", &run]);
    assert_eq!(deleted.code, 0, "{}", deleted.stderr);
    assert_eq!(home.run(&["run", "show", &run]).code, 2);
    assert_eq!(home.run(&["run", "delete", &run]).code, 2);
    assert_eq!(used(&home), 0);

    // The audit log, whose hash chain is intact, records who held, released and deleted it.
    let audit = home.run(&["--json", "audit", "list"]).stdout;
    assert!(audit.contains("case-17"), "{audit}");
    assert!(audit.matches(&run).count() >= 3, "{audit}");
    assert_eq!(home.run(&["audit", "verify"]).code, 0);
}
