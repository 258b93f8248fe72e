//! Files of a pack that are sent with the input of a task.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use touchstone_kit::hex::hex;

use super::support::described;
use crate::cli::home::{Done, Home};

const FILE: &[u8] = b"%PDF-1.7 invoice 4711";
const SUITE_ID: &str = "vendor.acme.evals.ticket-labels";

/// A pack folder whose task `double-charge` has the file, with this digest.
fn home_with(sha256: &str) -> Home {
    let home = Home::with_folder();
    std::fs::create_dir(home.path("my-agent/evals/files")).unwrap();
    std::fs::write(home.path("my-agent/evals/files/invoice.pdf"), FILE).unwrap();
    let document = json!({"scoringVersion": 1, "suiteId": SUITE_ID, "tasks": {"double-charge": {"attachments": [
        {"path": "evals/files/invoice.pdf", "sha256": sha256, "mediaType": "application/pdf"}]}}});
    let file = home.path("my-agent/evals/label.scoring.json");
    std::fs::write(file, document.to_string()).unwrap();
    home
}

fn digest() -> String {
    hex(&Sha256::digest(FILE))
}

fn eval(home: &Home, more: &[&str]) -> Done {
    let arguments = [
        "--json",
        "eval",
        "my-agent",
        "--lenient",
        "--mode",
        "golden",
        "--task",
        "double-charge",
    ];
    home.run(&[&arguments[..], more].concat())
}

#[test]
fn a_command_gets_the_file_and_the_log_only_its_digest() {
    let home = home_with(&digest());
    let script = r#"
import base64, json, sys
for line in sys.stdin:
    q = json.loads(line)
    file = q["attachments"][0]
    ok = base64.b64decode(file["data"]).startswith(b"%PDF-1.7") and file["mediaType"] == "application/pdf"
    print(json.dumps({"id": q["id"], "output": {"label": "billing" if ok else "other"}}), flush=True)
"#;
    std::fs::write(home.path("agent.py"), script).unwrap();
    let done = eval(&home, &["--agent-command", "python3 agent.py"]);
    assert_eq!(done.code, 0, "{} {}", done.stdout, done.stderr);
    let run = home.run_of(&done.document());
    let shown = home.run(&["run", "show", &run, "--task", "double-charge"]);
    let line = format!(
        "sent with the input: application/pdf of {} bytes, sha256 {}",
        FILE.len(),
        &digest()[..12]
    );
    assert!(shown.stdout.contains(&line), "{}", shown.stdout);
    let (_, events) = described(&home, &run, "double-charge");
    assert!(events.contains("touchstone.task.attached"), "{}", events);
    assert!(events.contains(&digest()), "{}", events);
    assert!(!events.contains("JVBERi"), "the content is not in the log");
}

#[test]
fn a_changed_file_is_refused_with_its_digest() {
    let home = home_with(&"a".repeat(64));
    let lint = home.run(&["pack", "lint", "my-agent"]);
    assert_eq!(lint.code, 1, "{}", lint.stdout);
    let said = format!("{}{}", lint.stdout, lint.stderr);
    assert!(
        said.contains("label.scoring.json:1:") && said.contains(&digest()),
        "{said}"
    );
    home.model(&json!([{"turns": [{"output": {"label": "billing"}}]}]));
    let done = eval(&home, &[]);
    assert_ne!(done.code, 0, "{}", done.stdout);
}

#[test]
fn an_imported_suite_has_no_files() {
    let home = home_with(&digest());
    let import = [
        "suite",
        "import",
        "my-agent/evals/label.json",
        "--scoring",
        "my-agent/evals/label.scoring.json",
    ];
    let imported = home.run(&import);
    assert_eq!(imported.code, 0, "{} {}", imported.stdout, imported.stderr);
    let signed: Value = json!([{"turns": [{"output": {"label": "billing"}}]}]);
    home.model(&signed);
    std::fs::remove_file(home.path("my-agent/evals/label.scoring.json")).unwrap();
    // The agent of the folder, and the imported suite.
    let done = eval(&home, &[]);
    assert_eq!(done.code, 0, "{} {}", done.stdout, done.stderr);
    let version = std::fs::read_to_string(home.path("my-agent/evals/label.json")).unwrap();
    let suite: Value = serde_json::from_str(&version).unwrap();
    let reference = format!("{SUITE_ID}@{}", suite["version"].as_str().unwrap());
    let done = home.run(&[
        "eval",
        &reference,
        "--agent",
        "vendor.acme.my-agent.default",
        "--lenient",
        "--mode",
        "golden",
    ]);
    assert_ne!(done.code, 0, "{}", done.stdout);
    let said = format!("{}{}", done.stdout, done.stderr);
    assert!(said.contains("imported without one"), "{said}");
}
