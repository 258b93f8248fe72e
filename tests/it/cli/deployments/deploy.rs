//! `deploy`, `gate` and `audit`: from a draft into service, with the gate's decision as exit code.

use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};
use touchstone::demo::pack::AGENT;

use crate::cli::home::{Home, but, right_answers};

fn version() -> String {
    format!("{AGENT}@1.0.0")
}

#[test]
fn a_version_becomes_active_only_if_the_gate_allows_it() {
    let home = Home::with_pack();
    let it = version();
    let listed = home.run(&["deploy", "list", AGENT]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    assert!(listed.stdout.starts_with("1.0.0"), "{}", listed.stdout);
    assert!(listed.stdout.contains("draft"), "{}", listed.stdout);
    for state in ["test", "staged"] {
        let moved = home.run(&["deploy", "promote", &it, "--to", state]);
        assert_eq!(moved.code, 0, "{}", moved.stderr);
        assert!(moved.stdout.contains(state), "{}", moved.stdout);
    }

    // Without evidence, and with an eval that did not pass.
    let asked = home.run(&["gate", "check", &it, "--channel", "stable"]);
    assert_eq!(asked.code, 1, "{}{}", asked.stdout, asked.stderr);
    assert!(asked.stdout.contains("eval-run: "), "{}", asked.stdout);
    let wrong = [
        "charged-twice",
        "labels-blank",
        "thanks",
        "vat-digit",
        "house-font",
        "crushed-box",
    ];
    let mut rules: Vec<Value> = wrong
        .map(|task| but(task, json!({"text": "no JSON"})))
        .into();
    rules.extend(right_answers());
    home.model(&json!(rules));
    let failing = home.eval(&["--json"]);
    assert_eq!(failing.code, 1, "{}", failing.stderr);
    let run = home.run_of(&failing.document());
    let refused = home.run(&[
        "deploy",
        "promote",
        &it,
        "--channel",
        "stable",
        "--eval-run",
        &run,
    ]);
    assert_eq!(refused.code, 1, "{}{}", refused.stdout, refused.stderr);
    assert!(refused.stderr.contains("passed: "), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("--eval-run") && !refused.stderr.contains("evalRunId"),
        "{}",
        refused.stderr
    );

    // Every run counts, so a second one that passes is not enough until the first is voided.
    home.model(&json!(right_answers()));
    let failed = run;
    let run = home.run_of(&home.eval(&["--json"]).document());
    let asked = home.run(&["gate", "check", &it, "--channel", "stable"]);
    assert_eq!(asked.code, 1, "{}{}", asked.stdout, asked.stderr);
    assert!(asked.stdout.contains(&failed), "{}", asked.stdout);
    let void = home.run(&["run", "void", &failed, "--reason", "wrong model"]);
    assert_eq!(void.code, 0, "{}{}", void.stdout, void.stderr);
    let asked = home.run(&["gate", "check", &it, "--channel", "stable"]);
    assert_eq!(asked.code, 0, "{}{}", asked.stdout, asked.stderr);
    assert!(asked.stdout.contains(&run), "{}", asked.stdout);
    let promoted = home.run(&[
        "--json",
        "deploy",
        "promote",
        &it,
        "--channel",
        "stable",
        "--canary",
        "10",
    ]);
    // Without a named run, the promotion chooses the one that the check chose.
    assert_eq!(promoted.code, 0, "{}", promoted.stderr);
    let record = promoted.document();
    assert_eq!(record["state"], "active");
    assert_eq!(record["channels"], json!(["stable"]));
    assert_eq!(record["evalRunId"], json!(run));
    let moved = home.run(&["deploy", "canary", &it, "50"]);
    assert!(moved.stdout.contains("50 %"), "{}", moved.stdout);
    assert_eq!(home.run(&["deploy", "pause", &it]).code, 0);
    let nowhere = home.run(&["deploy", "rollback", &it]);
    assert_eq!(nowhere.code, 2, "{}", nowhere.stdout);

    let audit = home.run(&["audit", "list"]);
    assert!(
        audit.stdout.contains("deployment:promote"),
        "{}",
        audit.stdout
    );
    assert!(
        audit.stdout.contains("deployment:pause"),
        "{}",
        audit.stdout
    );
    assert_eq!(home.run(&["audit", "verify"]).code, 0);
}

#[test]
fn a_policy_is_set_shown_and_removed() {
    let home = Home::with_pack();
    let set = home.run(&["gate", "set", "--channel", "stable", "--min-tasks", "500"]);
    assert_eq!(set.code, 0, "{}", set.stderr);
    home.model(&json!(right_answers()));
    assert_eq!(home.eval(&[]).code, 0);
    let asked = home.run(&["--json", "gate", "check", &version(), "--channel", "stable"]);
    assert_eq!(asked.code, 1);
    assert_eq!(asked.document()["unmet"][0]["condition"], "min-tasks");
    let shown = home.run(&["gate", "show"]);
    assert!(
        shown.stdout.contains("at least 500 tasks"),
        "{}",
        shown.stdout
    );
    assert_eq!(home.run(&["gate", "remove", "--channel", "stable"]).code, 0);
    assert_eq!(home.run(&["gate", "remove", "--channel", "stable"]).code, 2);
    let asked = home.run(&["gate", "check", &version(), "--channel", "stable"]);
    assert_eq!(asked.code, 0, "{}", asked.stdout);
}

#[test]
fn a_changed_audit_entry_is_detected_by_number() {
    let home = Home::with_pack();
    let it = version();
    for _ in 0..2 {
        assert_eq!(home.run(&["deploy", "promote", &it]).code, 0);
    }
    let set = home.run(&["gate", "set", "--allow-unsigned"]);
    assert_eq!(set.code, 0);
    let file = home.data().join("touchstone.db");
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let options = SqliteConnectOptions::new().filename(file);
        let mut raw = options.connect().await.unwrap();
        for sql in [
            "DROP TRIGGER audit_entry_changed",
            "UPDATE audit_entry SET body = REPLACE(body, 'promote', 'pause') WHERE sequence = 2",
        ] {
            sqlx::query(sql).execute(&mut raw).await.unwrap();
        }
        raw.close().await.unwrap();
    });
    let verified = home.run(&["audit", "verify"]);
    assert_eq!(verified.code, 1, "{}", verified.stdout);
    assert!(
        verified.stdout.contains("entry 2 was changed"),
        "{}",
        verified.stdout
    );
    let listed = home.run(&["audit", "list"]).stdout;
    let changed: Vec<&str> = listed
        .lines()
        .filter(|line| line.contains("CHANGED"))
        .collect();
    assert_eq!(changed.len(), 1, "{listed}");
    assert!(changed[0].trim_start().starts_with('2'), "{listed}");
}

#[test]
fn a_promotion_waits_for_approval() {
    let home = Home::with_pack();
    let settings = std::fs::read_to_string(home.config()).unwrap();
    let role = "[[roles]]\nname = \"release-manager\"\nscopes = [\"approvals:respond\"]\n";
    std::fs::write(home.config(), format!("{settings}{role}")).unwrap();
    let nobody = home.run(&["gate", "set", "--approvals", "2"]);
    assert_eq!(nobody.code, 2, "{}", nobody.stdout);
    let set = home.run(&[
        "gate",
        "set",
        "--no-eval",
        "--channel",
        "stable",
        "--approval-role",
        "release-manager",
        "--override-role",
        "release-manager",
    ]);
    assert_eq!(set.code, 0, "{}", set.stderr);
    assert!(
        set.stdout
            .contains("approval by 1 with role release-manager"),
        "{}",
        set.stdout
    );
    let it = version();
    for _ in 0..2 {
        assert_eq!(home.run(&["deploy", "promote", &it]).code, 0);
    }
    let promote = ["--json", "deploy", "promote", &it, "--channel", "stable"];
    let gate = || {
        let waits = home.run(&promote);
        assert_eq!(waits.code, 1, "{}{}", waits.stdout, waits.stderr);
        let failure = waits.document();
        failure["error"]["details"]["approvalGateId"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let said_no = gate();
    let asked = home.run(&["gate", "check", &it, "--channel", "stable"]);
    assert_eq!(asked.code, 1);
    assert!(
        asked.stdout.contains(&format!("in {said_no}")),
        "{}",
        asked.stdout
    );
    let no = home.run(&["deploy", "approve", &said_no, "--reject"]);
    assert_eq!(
        (no.code, no.stdout.trim()),
        (0, "rejected"),
        "{}",
        no.stderr
    );
    assert_eq!(gate(), said_no, "it was refused there");
    let said_yes = gate();
    assert_ne!(said_yes, said_no);
    let yes = home.run(&["deploy", "approve", &said_yes]);
    assert_eq!(yes.code, 0, "{}", yes.stderr);
    assert!(yes.stdout.starts_with("approved"), "{}", yes.stdout);
    assert_eq!(home.run(&["deploy", "approve", &said_yes]).code, 2, "once");
    let promoted = home.run(&promote);
    assert_eq!(promoted.code, 0, "{}", promoted.stderr);
    assert_eq!(promoted.document()["approvalGateId"], json!(said_yes));

    assert_eq!(home.run(&["deploy", "pause", &it]).code, 0);
    let resume = home.run(&["--json", "deploy", "promote", &it]);
    let failure = resume.document();
    let alone = failure["error"]["details"]["approvalGateId"]
        .as_str()
        .unwrap();
    assert_eq!(
        home.run(&["deploy", "approve", alone, "--override", "incident-17"])
            .code,
        0
    );
    assert_eq!(home.run(&["deploy", "promote", &it]).code, 0);
    let audit = home.run(&["audit", "list"]).stdout;
    assert!(
        audit.contains("approval:override") && audit.contains("incident-17"),
        "{audit}"
    );
}
