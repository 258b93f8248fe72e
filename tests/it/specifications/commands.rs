//! The commands of AAAF section 8, with the real binary.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{text, with_ids};
use crate::cli::home::{Done, Home};
use crate::cli::ratings::rating::assert_good;
use crate::http::support::host::archive_of;
use crate::support::evidence::collecting_in;

const AGENT: &str = "security-auditor";
/// The pack that runs as the agent in its stress test.
const PACK: &str = "community.bench.auditor";

/// The printed command that begins so, for our binary.
fn command(beginning: &str, assessment: &str) -> Vec<String> {
    let ids = [
        ("python cli.py ", ""),
        ("<agent_name>", AGENT),
        ("<assessment_id>", assessment),
    ];
    let commands = with_ids("aaaf/commands.txt", &ids);
    let beginning = beginning.replace("<agent_name>", AGENT);
    let found = commands.lines().find(|line| line.starts_with(&beginning));
    let words = found.unwrap().split(' ');
    words.map(str::to_owned).collect()
}

fn run(home: &Home, beginning: &str, assessment: &str) -> Done {
    let done = Done::of(home.touchstone().args(command(beginning, assessment)));
    assert_eq!(done.code, 0, "{beginning}: {}{}", done.stdout, done.stderr);
    done
}

/// Task logs with the fields that most dimensions use.
fn task_logs() -> String {
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
    let ago = |seconds: i64| (now - SignedDuration::from_secs(seconds)).to_string();
    let row = |n: i64| {
        let began = 40_000 - n * 60;
        let row = json!({"task_id": format!("t{n}"), "assigned_at": ago(began), "completed_at": ago(began - 300),
            "completion_status": "accepted", "complexity_level": n % 3 + 1, "domain": "security", "revision_count": 0,
            "errors": [], "autonomy_level": 2, "review_checklist": {"format": true, "tests": n % 4 != 0},
            "tools_used": [{"tool": "grep", "invocations": 4, "successes": 3, "unnecessary": 1, "errors_recovered": 1}]});
        format!("{row}\n")
    };
    (0..36).map(row).collect()
}

/// Installs the pack that runs as the agent and does every task itself.
fn install(home: &Home) {
    let settings = std::fs::read_to_string(home.config()).unwrap();
    let settings = format!("{settings}\n[packs]\ntrust = \"open\"\n");
    std::fs::write(home.config(), settings).unwrap();
    let manifest = json!({
        "name": PACK, "version": "1.0.0", "description": "An agent.", "author": "Bench", "license": "0BSD",
        "engines": {"openwop": ">=1.0.0 <2.0.0"}, "runtime": {"language": "remote", "entry": "pack.json"},
        "agents": [{"agentId": format!("{PACK}.default"), "persona": "Agent", "modelClass": "general",
            "systemPrompt": "Work.", "toolAllowlist": []}],
    });
    std::fs::write(home.path("auditor.tgz"), archive_of(&manifest)).unwrap();
    assert_good(&home.run(&["pack", "install", "auditor.tgz"]));
    home.model(&json!([{"turns": [{"output": "DONE: self"}]}]));
}

/// Changes the agent; returns the changed agent.
fn changed(home: &Home, more: &[&str]) -> Value {
    let update = ["enroll", AGENT, "--update", "--json"];
    let done = home.run(&[&update[..], more].concat());
    assert_good(&done);
    done.document()
}

#[test]
fn the_printed_commands_rate_an_agent_from_the_first_to_the_last() {
    let home = Home::empty();
    run(&home, "enroll ", "");
    let agent = changed(&home, &["--tools", "bash,grep"]);
    assert_eq!(agent["domains"], json!(["security", "code"]));
    assert_eq!(agent["tools"], json!(["bash", "grep"]));
    let (organization, id) = (text(&agent["organization_id"]), text(&agent["id"]));
    let data = home.data();
    let collecting = collecting_in(&data, &organization, &id);
    tokio::runtime::Runtime::new().unwrap().block_on(collecting);

    std::fs::write(home.path("task_logs.jsonl"), task_logs()).unwrap();
    let collected = run(&home, "collect ", "");
    assert_eq!(collected.stdout, "72 recorded\n", "{}", collected.stderr);
    let assessed = run(&home, "assess <agent_name>", "").stdout;
    for axis in ["performance", "capability"] {
        assert!(assessed.contains(axis), "{assessed}");
    }
    let all = run(&home, "assess --all", "").stdout;
    assert!(all.contains(AGENT), "{all}");

    let done = home.run(&["assess", AGENT, "--json"]);
    assert_good(&done);
    let assessment = text(&done.document()["id"]);
    run(&home, "badge ", &assessment);
    for format in ["svg", "json"] {
        assert!(home.path(&format!("{assessment}.{format}")).exists());
    }
    run(&home, "report <agent_name>", "");
    run(&home, "report --summary", "");
    for file in [
        "reports/security-auditor.md",
        "reports/civilization-summary.md",
    ] {
        let report = std::fs::read_to_string(home.path(file)).unwrap();
        assert!(report.contains(AGENT), "{file}: {report}");
    }

    install(&home);
    changed(&home, &["--openwop-agent", &format!("{PACK}.default")]);
    // The agent delegates no task, so the test runs to its end without anything to score.
    let tested = Done::of(home.touchstone().args(command("stress-test ", "")));
    assert_eq!(tested.code, 4, "{}{}", tested.stdout, tested.stderr);
    let reason = "delegation_capability cannot be assessed: too few decisions";
    assert!(tested.stderr.contains(reason), "{}", tested.stderr);
}
