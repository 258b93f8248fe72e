//! `run diff` and its kin: looking closer at recorded runs, embedded.

use serde_json::json;

use super::home::{Home, but, right_answers};

#[test]
fn a_diff_exits_0_for_the_same_run_and_1_for_another() {
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    let before = home.run_of(&home.eval(&["--json"]).document());
    let mut rules = vec![but("thanks", json!({"output": {"queue": "spam"}}))];
    rules.extend(right_answers());
    home.model(&json!(rules));
    let report = home.eval(&["--json", "--baseline", &before]).document();
    let after = home.run_of(&report);
    let reference = format!("/v1/runs/{after}:diff?against={before}");
    assert_eq!(report["summary"]["regression"]["diffRef"], json!(reference));

    let same = home.run(&["run", "diff", &before, &before]);
    assert_eq!(
        (same.code, same.stdout.lines().last()),
        (0, Some("no difference"))
    );
    let other = home.run(&["run", "diff", &before, &after]);
    assert_eq!(other.code, 1, "{}", other.stderr);
    assert!(
        other.stdout.contains("diverged at event"),
        "{}",
        other.stdout
    );
    let document = home
        .run(&["--json", "run", "diff", &before, &after])
        .document();
    assert!(document["divergedAtSeq"].is_u64(), "{document}");
    let missing = home.run(&["run", "diff", &before, "run_absent"]);
    assert_eq!(missing.code, 2, "{}", missing.stderr);
}

#[test]
fn a_replay_needs_no_model_and_a_branch_judges_anew() {
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    let run = home.run_of(&home.eval(&["--json"]).document());
    // Whatever the model would say now.
    home.model(&json!([]));
    let replay = home.run(&["--json", "run", "fork", &run]);
    assert_eq!(replay.code, 0, "{}{}", replay.stdout, replay.stderr);
    let report = replay.document();
    assert_eq!(
        report["fork"],
        json!({"sourceRunId": run, "fromSeq": 0, "mode": "replay"})
    );
    let same = home.run(&["run", "diff", &run, &home.run_of(&report)]);
    assert_eq!(same.code, 0, "{}", same.stdout);
    let shown = home.run(&["run", "show", &home.run_of(&report)]);
    let line = format!("fork    replay of {run} from event 0");
    assert!(shown.stdout.contains(&line), "{}", shown.stdout);
    let branch = home.run(&[
        "--json",
        "run",
        "fork",
        &run,
        "--mode",
        "branch",
        "--from-seq",
        "0",
    ]);
    assert_eq!(branch.code, 4, "{}{}", branch.stdout, branch.stderr);
    let usage = home.run(&["run", "fork", &run, "--mode", "branch"]);
    assert_eq!(usage.code, 2, "{}", usage.stderr);
}
