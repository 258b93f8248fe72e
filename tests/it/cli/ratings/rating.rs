//! `enroll`, `collect`, `assess`: from an empty folder to a rating, locally and against a host.

use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use serde_json::{Value, json};

use crate::cli::home::{Done, Home};
use crate::cli::serve::Server;
use crate::http::support::clerk;
use crate::ratings::api::agents::elsewhere::PROGRAM;
use crate::support::evidence::collecting_in;

fn ago(seconds: i64) -> String {
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
    (now - SignedDuration::from_secs(seconds)).to_string()
}

/// Tasks with the fields that most dimensions use; the agent's name is as in events of other
/// systems.
pub fn tasks(agent: &str, many: usize) -> Vec<Value> {
    let mut events = Vec::new();
    for n in 0..many {
        let (task, began) = (format!("t{n}"), 40_000 - i64::try_from(n).unwrap() * 60);
        events.push(json!({"agent_id": agent, "type": "task_assigned", "timestamp": ago(began),
            "data": {"task_id": task, "complexity_level": n % 3 + 1, "domain": "code", "assigned_at": ago(began)}}));
        events.push(json!({"agent_id": agent, "type": "task_completed", "timestamp": ago(began - 300),
            "data": {"task_id": task, "completion_status": "accepted", "time_to_complete_seconds": 300,
                "revision_count": 0, "errors": [], "autonomy_level": 2,
                "review_checklist": {"format": true, "tests": n % 4 != 0},
                "tools_used": [{"tool": "grep", "invocations": 4, "successes": 3, "unnecessary": 1, "errors_recovered": 1}]}}));
    }
    events
}

pub fn write(home: &Home, file: &str, events: &[Value]) {
    let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
    std::fs::write(home.path(file), lines).unwrap();
}

/// A folder with an enrolled agent and this many tasks.
pub fn with_evidence(many: usize) -> Home {
    with_evidence_about("triage", many)
}

/// The same for an agent with this name.
pub fn with_evidence_about(agent: &str, many: usize) -> Home {
    let home = Home::empty();
    let enroll = [
        "rating", "enroll", agent, "--domain", "code", "--tool", "grep",
    ];
    let done = home.run(&[&enroll[..], &["--json"]].concat());
    assert_good(&done);
    let enrolled = done.document();
    let text = |name: &str| enrolled[name].as_str().unwrap();
    let folder = home.data();
    let collecting = collecting_in(&folder, text("organization_id"), text("id"));
    tokio::runtime::Runtime::new().unwrap().block_on(collecting);
    if many == 0 {
        return home;
    }
    write(&home, "events.jsonl", &tasks(agent, many));
    let done = home.run(&["rating", "collect", "--source", "events.jsonl"]);
    assert_good(&done);
    assert_eq!(done.stdout, format!("{} recorded\n", many * 2));
    home
}

pub fn assert_good(done: &Done) {
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
}

#[test]
fn an_agent_is_rated_in_an_empty_folder_without_any_set_up() {
    let home = with_evidence(36);
    // The same file with more lines: no event is recorded twice.
    let mut events = tasks("triage", 36);
    let text = std::fs::read_to_string(home.path("events.jsonl")).unwrap();
    events.truncate(1);
    std::fs::write(
        home.path("events.jsonl"),
        format!("{text}\n{}\n", events[0]),
    )
    .unwrap();
    assert_good(&home.run(&["rating", "collect", "--source", "events.jsonl"]));

    let done = home.run(&["rating", "assess", "triage"]);
    assert_good(&done);
    for told in [
        "agent        triage",
        "performance",
        "capability",
        "tool proficiency",
        "95 % intervals",
        "improvement areas",
        "assessment   ",
    ] {
        assert!(done.stdout.contains(told), "{told}: {}", done.stdout);
    }
    assert!(!done.stdout.contains(['\u{1b}', '█']), "{}", done.stdout);

    let done = home.run(&["rating", "assess", "triage", "--json"]);
    assert_good(&done);
    let found = done.document();
    assert_eq!(found["status"], "completed");
    // Every event once, including the one that came later.
    assert_eq!(found["result"]["evidence"]["events"], 73);
    assert_eq!(found["result"]["tasks_performance"], 36);
    // The id works as well.
    let id = found["agent_id"].as_str().unwrap();
    assert_good(&home.run(&["rating", "assess", id, "--dimension", "accuracy"]));
}

#[test]
fn a_rating_on_a_terminal_shows_bars() {
    let home = with_evidence(36);
    let done = Done::of(
        home.touchstone()
            .env("CLICOLOR_FORCE", "1")
            .args(["rating", "assess", "triage"]),
    );
    assert_good(&done);
    assert!(done.stdout.contains('█'), "{}", done.stdout);
}

#[test]
fn too_little_evidence_exits_4_and_an_unknown_agent_2() {
    let home = with_evidence(5);
    let done = home.run(&["rating", "assess", "triage", "--json"]);
    assert_eq!(done.code, 4, "{}{}", done.stdout, done.stderr);
    let error = &done.document()["error"];
    assert_eq!(error["code"], "INSUFFICIENT_EVIDENCE");
    assert_eq!(error["details"]["current_count"], 5);
    let done = home.run(&["rating", "assess", "triag"]);
    assert_eq!(done.code, 2, "{}{}", done.stdout, done.stderr);
    assert!(
        done.stderr.contains("agent triag not found") && done.stderr.contains("triage"),
        "{}",
        done.stderr
    );
}

#[test]
fn assess_all_rates_every_agent_and_exits_with_the_worst_code() {
    let home = with_evidence(36);
    assert_good(&home.run(&["rating", "enroll", "idle"]));
    let done = home.run(&["rating", "assess", "--all"]);
    assert_eq!(done.code, 4, "{}{}", done.stdout, done.stderr);
    assert!(
        done.stdout.contains("triage  performance 0.")
            && done.stdout.contains("idle  performance needs 20 tasks"),
        "{}",
        done.stdout
    );
    let done = home.run(&["rating", "assess", "--all", "--json"]);
    let document = done.document();
    let listed = document["assessments"].as_array().unwrap();
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[0]["assessment"]["status"], "completed");
    assert_eq!(listed[1]["error"]["code"], "INSUFFICIENT_EVIDENCE");
    assert_eq!(document["ok"], false);
}

#[test]
fn a_refused_event_is_named_with_its_line_and_the_others_are_taken() {
    let home = Home::empty();
    assert_good(&home.run(&["rating", "enroll", "triage"]));
    let mut events = tasks("triage", 2);
    events[1]["agent_id"] = json!("a-stranger");
    write(&home, "events.jsonl", &events);
    let text = std::fs::read_to_string(home.path("events.jsonl")).unwrap();
    std::fs::write(home.path("events.jsonl"), format!("{text}no event\n")).unwrap();
    let done = home.run(&["rating", "collect", "--source", "events.jsonl"]);
    assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);
    assert_eq!(done.stdout, "3 recorded, 2 refused\n");
    assert!(
        done.stderr.contains("line 2: ") && done.stderr.contains("line 5: not JSON"),
        "{}",
        done.stderr
    );
    let done = home.run(&["rating", "collect", "--source", "events.jsonl", "--json"]);
    let document = done.document();
    assert_eq!(
        (&document["accepted"], &document["rejected"]),
        (&json!(3), &json!(2))
    );
    // Only the rejected event.
    write(&home, "bad.jsonl", &events[1..2]);
    let done = home.run(&["rating", "collect", "--source", "bad.jsonl"]);
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (1, "0 recorded, 1 refused\n")
    );
}

#[test]
fn agent_and_start_time_of_events_may_be_given_as_options() {
    let home = Home::empty();
    assert_good(&home.run(&["rating", "enroll", "triage"]));
    let mut events = tasks("triage", 3);
    for event in &mut events {
        event.as_object_mut().unwrap().remove("agent_id");
    }
    events[0]["timestamp"] = json!(ago(20 * 86_400));
    std::fs::write(home.path("events.json"), json!(events).to_string()).unwrap();
    let from = ago(10 * 86_400);
    let done = home.run(&[
        "rating",
        "collect",
        "--source",
        "events.json",
        "--agent",
        "triage",
        "--from",
        &from,
    ]);
    assert_good(&done);
    assert_eq!(done.stdout, "5 recorded, 1 skipped as older\n");
    // Without an offset, a time would be that of another zone, or a whole day.
    let local = [
        "collect",
        "--source",
        "events.json",
        "--from",
        "2026-04-16T12:00:00",
    ];
    assert_eq!(home.run(&local).code, 2);
    let text = std::fs::read_to_string(home.path("events.json")).unwrap();
    let mut command = home.touchstone();
    let piped = Done::of(
        command
            .args(["rating", "collect", "--source", "-", "--agent", "triage"])
            .write_stdin(text),
    );
    assert_eq!(piped.stdout, "6 recorded\n");
}

#[test]
fn an_agent_is_enrolled_once_and_changed_only_on_request() {
    let home = Home::empty();
    let done = home.run(&[
        "rating",
        "enroll",
        "triage",
        "--organization",
        "Acme",
        "--json",
    ]);
    assert_good(&done);
    assert_eq!(done.document()["name"], "triage");
    let done = home.run(&["rating", "enroll", "triage", "--agent-version", "1.1.0"]);
    assert_eq!(done.code, 2, "{}{}", done.stdout, done.stderr);
    assert!(done.stderr.contains("--update"), "{}", done.stderr);
    let done = home.run(&[
        "rating",
        "enroll",
        "triage",
        "--agent-version",
        "1.1.0",
        "--update",
        "--json",
    ]);
    assert_good(&done);
    assert_eq!(done.document()["version"], "1.1.0");
}

#[rstest]
#[case(&["rating", "assess", "triage"])]
#[case(&["rating", "assess", "--all"])]
fn assess_without_enrolled_agents_explains_how_to_enroll(#[case] arguments: &[&str]) {
    let done = Home::empty().run(arguments);
    assert_eq!(done.code, 2, "{}{}", done.stdout, done.stderr);
    assert!(
        done.stderr.contains("touchstone rating enroll NAME"),
        "{}",
        done.stderr
    );
}

#[test]
fn rating_commands_work_against_a_remote_host() {
    let home = with_evidence(0);
    let key = home
        .run(&["key", "create", "--tenant", "default", "--scope", "all"])
        .stdout;
    let server = Server::start_with(&home, &[]);
    let elsewhere = Home::empty();
    write(&elsewhere, "events.jsonl", &tasks("triage", 36));
    let remote = |arguments: &[&str]| {
        let start = ["--server", &server.url, "--key", key.trim_end()];
        elsewhere.run(&[&start[..], arguments].concat())
    };
    let done = remote(&["rating", "collect", "--source", "events.jsonl"]);
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (0, "72 recorded\n"),
        "{}",
        done.stderr
    );
    let done = remote(&["rating", "assess", "triage", "--json"]);
    assert_good(&done);
    assert_eq!(done.document()["result"]["tasks_performance"], 36);
    let done = remote(&["rating", "assess", "triage", "--no-wait", "--json"]);
    assert_good(&done);
    assert!(done.document()["id"].is_string(), "{}", done.stdout);
    let done = remote(&["rating", "enroll", "other", "--organization", "Acme"]);
    assert_eq!(done.code, 2, "{}", done.stderr);
    // A key whose tenant has no organization gets an error that says who creates one.
    let stranger = home
        .run(&["key", "create", "--tenant", "other", "--scope", "all"])
        .stdout;
    let start = ["--server", &server.url, "--key", stranger.trim_end()];
    let done = elsewhere.run(&[&start[..], &["rating", "enroll", "triage"]].concat());
    assert_eq!(done.code, 2, "{}", done.stderr);
    assert!(done.stderr.contains("operator"), "{}", done.stderr);
}

#[test]
fn a_report_shows_the_current_and_earlier_ratings_in_both_formats() {
    let home = with_evidence(36);
    let done = home.run(&["rating", "report", "triage"]);
    assert_eq!(done.code, 4, "{}{}", done.stdout, done.stderr);
    assert!(
        done.stderr
            .contains("try: assess it with touchstone rating assess triage"),
        "{}",
        done.stderr
    );
    assert_good(&home.run(&["rating", "assess", "triage"]));
    assert_good(&home.run(&["rating", "assess", "triage"]));
    let done = home.run(&["rating", "report", "triage"]);
    assert_good(&done);
    for told in [
        "# triage",
        "Local",
        "## Earlier ratings",
        "Tool Proficiency",
        "## Improvement areas",
        "not assessed: record ",
        " before: not significant",
        "mapped to these standards",
    ] {
        assert!(done.stdout.contains(told), "{told}: {}", done.stdout);
    }
    let done = home.run(&[
        "rating",
        "report",
        "triage",
        "--output",
        "triage.html",
        "--json",
    ]);
    assert_good(&done);
    let page = std::fs::read_to_string(home.path("triage.html")).unwrap();
    let facts = done.document();
    let display = facts["now"]["performance"]["display"].as_str().unwrap();
    assert!(
        page.starts_with("<!doctype html>") && page.contains(display),
        "{page}"
    );
    assert_eq!(facts["history"].as_array().unwrap().len(), 1);

    assert_good(&home.run(&["rating", "enroll", "idle"]));
    let done = home.run(&["rating", "report", "--summary"]);
    assert_good(&done);
    assert!(
        done.stdout.contains("2 enrolled, 1 rated") && done.stdout.contains("| idle | not rated"),
        "{}",
        done.stdout
    );
    let done = home.run(&["rating", "report", "--summary", "--output", "all.html"]);
    assert_good(&done);
    assert!(home.path("all.html").exists() && done.stdout.is_empty());
    let done = home.run(&["rating", "report", "triage", "--output", "triage.pdf"]);
    assert_eq!(done.code, 2, "{}", done.stderr);
    assert!(done.stderr.contains("--format"), "{}", done.stderr);
}

#[test]
fn a_badge_is_taken_in_every_form_and_verified_offline() {
    let home = with_evidence(36);
    let done = home.run(&["rating", "badge", "triage"]);
    assert_eq!(done.code, 4, "{}{}", done.stdout, done.stderr);
    let done = home.run(&["rating", "assess", "triage", "--json"]);
    assert_good(&done);
    let assessment = done.document()["id"].as_str().unwrap().to_owned();
    for file in ["badge.png", "badge.svg", "badge.json"] {
        assert_good(&home.run(&["rating", "badge", &assessment, "--output", file]));
    }
    let credential = ["--format", "credential", "-o", "credential.json"];
    assert_good(&home.run(&[&["rating", "badge", "triage"], &credential[..]].concat()));
    let several = [
        "rating",
        "badge",
        &assessment,
        "--format",
        "svg,json",
        "--output",
        "badges/",
        "--json",
    ];
    let done = home.run(&several);
    assert_good(&done);
    let files = done.document();
    let [svg, json] = ["svg", "json"].map(|it| format!("badges/{assessment}.{it}"));
    assert_eq!(files["outputs"], json!([svg, json]));
    assert_good(&home.run(&["rating", "badge", "verify", &svg]));
    assert_good(&home.run(&["rating", "badge", &assessment, "--format", "svg,json"]));
    assert!(home.path(&format!("{assessment}.json")).exists());
    let text = std::fs::read_to_string(home.path("badge.json")).unwrap();
    let mut altered: Value = serde_json::from_str(&text).unwrap();
    let accuracy = &altered["performance"]["dimensions"]["accuracy"];
    assert!(
        accuracy.is_number(),
        "as the specification prints it: {accuracy}"
    );
    altered["performance"]["tier"] = json!("Novice");
    std::fs::write(home.path("altered.json"), altered.to_string()).unwrap();
    let done = home.run(&["rating", "badge", "verify", "altered.json", "--json"]);
    assert_eq!(done.code, 1, "{}", done.stdout);
    let reason = done.document()["reasons"][0].clone();
    assert_eq!(reason["code"], "document_altered");
    let message = reason["message"].as_str().unwrap();
    assert!(message.contains(" in performance.tier;"), "{message}");
    for file in ["badge.png", "badge.svg", "badge.json", "credential.json"] {
        let done = home.run(&["rating", "badge", "verify", file]);
        assert_good(&done);
        assert!(
            done.stdout.contains("the badge is valid"),
            "{}",
            done.stdout
        );
    }
    let done = home.run(&["rating", "badge", "triage"]);
    assert_good(&done);
    assert!(done.stdout.starts_with("| AAAF badge |"), "{}", done.stdout);
    let report = home.run(&["rating", "report", "triage"]);
    assert!(report.stdout.contains("Valid until "), "{}", report.stdout);
    let done = home.run(&[
        "rating",
        "assess",
        "triage",
        "--dimension",
        "accuracy",
        "--json",
    ]);
    let single = done.document()["id"].as_str().unwrap().to_owned();
    let done = home.run(&["rating", "badge", &single]);
    assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);
    assert!(done.stderr.contains("has no badge"), "{}", done.stderr);
    let done = home.run(&["rating", "badge", "triage", "--output", "badge.gif"]);
    assert_eq!(done.code, 2, "{}", done.stderr);
}

#[test]
fn the_hosts_own_runs_are_a_source_too() {
    let home = Home::empty();
    let agent = "vendor.acme.triage.default@1.1.0";
    let done = home.run(&[
        "rating",
        "enroll",
        "triage",
        "--openwop-agent",
        agent,
        "--json",
    ]);
    assert_good(&done);
    assert_eq!(done.document()["openwop_agent"], agent);
    let done = home.run(&["rating", "collect", "--source", "host", "--agent", "triage"]);
    assert_good(&done);
    assert_eq!(done.stdout, "0 recorded from 0 runs\n");
}

#[test]
fn gate_set_prints_the_required_rating() {
    let home = Home::empty();
    let done = home.run(&[
        "gate",
        "set",
        "--rating",
        "--performance-tier",
        "Proficient",
        "--rating-max-age-days",
        "90",
    ]);
    assert_good(&done);
    let words = "a rating of the version, performance Proficient or better, not older than 90 days, a valid badge";
    assert!(done.stdout.contains(words), "{}", done.stdout);
    let done = home.run(&["gate", "set", "--rating", "--capability-tier", "Elite"]);
    assert_eq!(done.code, 2, "{}", done.stderr);
    assert!(
        done.stderr.contains("minimumCapabilityTier"),
        "{}",
        done.stderr
    );
}

#[test]
fn stress_tests_need_an_agent_that_can_run() {
    let home = with_evidence(0);
    for command in [
        ["rating", "stress-test", "triage"].as_slice(),
        &[
            "rating",
            "stress-test",
            "triage",
            "--dimension",
            "delegation",
        ],
        &["rating", "assess", "triage", "--type", "stress_test_only"],
    ] {
        let done = home.run(command);
        assert_eq!(done.code, 2, "{}{}", done.stdout, done.stderr);
        assert!(done.stderr.contains("openwop_agent"), "{}", done.stderr);
        assert!(
            done.stderr.contains("--openwop-agent AGENT --update"),
            "{}",
            done.stderr
        );
    }
    // The evidence included in the bundle could be rated; there is none.
    for command in [
        [
            "rating",
            "assess",
            "triage",
            "--type",
            "full",
            "--no-stress-test",
        ]
        .as_slice(),
        &["rating", "assess", "triage", "--type", "full"],
    ] {
        let done = home.run(command);
        assert_eq!(done.code, 4, "{}{}", done.stdout, done.stderr);
    }
}

#[test]
fn an_agent_that_is_a_command_of_the_configuration_is_put_through_stress_tests() {
    let home = Home::empty();
    std::fs::write(home.path("agent.py"), PROGRAM).unwrap();
    let expected = json!(clerk::expected()).to_string();
    std::fs::write(home.path("expected.json"), expected).unwrap();
    let settings = std::fs::read_to_string(home.config()).unwrap();
    let reach = "[[ratings.reach.commands]]\nname = \"clerk\"\ncommand = \"python3 agent.py expected.json\"\n\
                 tenants = [\"default\"]\n";
    std::fs::write(home.config(), format!("{settings}\n{reach}")).unwrap();
    let refused = home.run(&["rating", "enroll", "clerk", "--command", "python3 agent.py"]);
    assert_ne!(refused.code, 0, "{}", refused.stdout);
    assert!(
        refused.stderr.contains("reached_by.command"),
        "{}",
        refused.stderr
    );
    let enroll = [
        "rating",
        "enroll",
        "clerk",
        "--domain",
        "legal",
        "--command",
        "clerk",
    ];
    let done = home.run(&[&enroll[..], &["--json"]].concat());
    assert_good(&done);
    let way = json!({"transport": "command", "command": "clerk"});
    assert_eq!(done.document()["reached_by"], way);
    let test = [
        "rating",
        "stress-test",
        "clerk",
        "--dimension",
        "complexity",
        "--json",
    ];
    let done = home.run(&test);
    assert_good(&done);
    let found = done.document();
    assert_eq!(
        (&found["status"], &found["stress_test"]["reached_by"]),
        (&json!("completed"), &way),
        "{found}"
    );
    // Naming an installed agent removes the endpoint.
    let agent = "vendor.acme.triage.default";
    let update = [
        "rating",
        "enroll",
        "clerk",
        "--openwop-agent",
        agent,
        "--update",
        "--json",
    ];
    let done = home.run(&update);
    assert_good(&done);
    assert_eq!(done.document()["reached_by"], json!(null));
    for wrong in [
        ["--openwop-host", "https://host.example"].as_slice(),
        &["--a2a", "https://desk.example", "--command", "clerk"],
        &["--credential", "desk"],
    ] {
        let done = home.run(&[&["rating", "enroll", "other"], wrong].concat());
        assert_eq!(done.code, 2, "{}{}", done.stdout, done.stderr);
    }
}

#[test]
fn weights_and_taxonomy_are_shown_and_set() {
    let home = with_evidence(0);
    let set = home.run(&[
        "rating",
        "weights",
        "set",
        "--preset",
        "specialist",
        "--json",
    ]);
    assert_good(&set);
    let document = set.document();
    assert_eq!(document["capability_weights"]["complexity_ceiling"], 0.3);
    assert_eq!(document["capability_weights"]["orchestration_skills"], 0.0);
    assert_eq!(document["performance_weights"]["accuracy"], 0.25);
    let more = ["--weight", "accuracy=0.3", "--weight", "speed=0.1"];
    assert_good(&home.run(&[&["rating", "weights", "set"][..], &more].concat()));
    let shown = home
        .run(&["rating", "weights", "show", "--json"])
        .document();
    assert_eq!(shown["performance_weights"]["accuracy"], 0.3);
    assert_eq!(shown["capability_weights"]["complexity_ceiling"], 0.3);
    assert_good(&home.run(&["rating", "weights", "set", "--preset", "generalist"]));
    let refused = home.run(&["rating", "weights", "set", "--weight", "speed=0.9"]);
    assert_eq!(refused.code, 2, "{}", refused.stdout);
    assert!(refused.stderr.contains("sum"), "{}", refused.stderr);
    let refused = home.run(&["rating", "weights", "set"]);
    assert_eq!(refused.code, 2, "{}", refused.stdout);

    assert_good(&home.run(&["rating", "taxonomy", "set", "code", "research"]));
    let shown = home
        .run(&["rating", "taxonomy", "show", "--json"])
        .document();
    assert_eq!(shown["domain_taxonomy"], json!(["code", "research"]));
}

#[test]
fn the_organization_and_its_webhooks_are_managed() {
    let home = with_evidence(0);
    let shown = home.run(&["rating", "organization", "show"]);
    assert_good(&shown);
    assert!(shown.stdout.contains("Local"), "{}", shown.stdout);
    let change = ["change", "--name", "Acme", "--badges", "private", "--json"];
    let changed = home.run(&[&["rating", "organization"][..], &change].concat());
    assert_good(&changed);
    let changed = changed.document();
    assert_eq!(
        (&changed["name"], &changed["badges"]),
        (&json!("Acme"), &json!("private"))
    );
    let change = |arguments: &[&str]| {
        home.run(&[&["rating", "organization", "change", "--json"], arguments].concat())
    };
    let named = change(&["--auditor", "auditors-ltd/kim"]);
    assert_good(&named);
    assert_eq!(
        named.document()["auditors"],
        json!([{"tenant": "auditors-ltd", "principal": "kim"}])
    );
    assert_eq!(change(&["--auditor", "kim"]).code, 2);
    let removed = change(&["--no-auditors"]).document();
    assert_eq!(removed["auditors"], json!([]));
    let audit = |assessment: &str| {
        let of = ["--organization", "0199c0de-0000-7000-8000-000000000001"];
        let review = ["rating", "review", assessment, "--approve"];
        home.run(&[&review[..], &of].concat())
    };
    assert_eq!(audit("triage").code, 2, "an id is needed");
    let stranger = audit("0199c0de-0000-7000-8000-000000000003");
    assert_eq!(stranger.code, 2, "{}", stranger.stdout);
    let said = &stranger.stderr;
    assert!(said.contains("no such organization"), "{said}");
    let policy = |arguments: &[&str]| {
        home.run(&[&["rating", "organization", "policy", "--json"], arguments].concat())
    };
    let usual = policy(&[]);
    assert_good(&usual);
    let usual = usual.document();
    assert_eq!(
        (
            &usual["review_policy"],
            &usual["reassessment_interval_days"]
        ),
        (&json!("anomalies"), &json!(null))
    );
    let set = policy(&["--review", "always", "--reassess-every", "30"]);
    assert_good(&set);
    assert_eq!(
        set.document(),
        policy(&[]).document(),
        "the policy is stored"
    );
    assert_eq!(set.document()["reassessment_interval_days"], 30);
    let back = policy(&["--review", "anomalies", "--reassess-every", "off"]);
    assert_eq!(back.document(), usual);
    assert_eq!(policy(&["--reassess-before-expiry", "90"]).code, 2);
    assert_eq!(policy(&["--reassess-every", "soon"]).code, 2);

    let webhook = |arguments: &[&str]| home.run(&[&["rating", "webhook"], arguments].concat());
    let added = webhook(&[
        "add",
        "https://9.9.9.9/hook",
        "--event",
        "badge.expired",
        "--json",
    ]);
    assert_good(&added);
    let added = added.document();
    assert!(added["secret"].is_string(), "{added}");
    let id = added["id"].as_str().unwrap();
    let listed = webhook(&["list", "--json"]).document();
    assert_eq!(listed["data"][0]["events"], json!(["badge.expired"]));
    let rotated = webhook(&["rotate", id, "--json"]).document();
    assert_ne!(rotated["secret"], added["secret"]);
    assert_good(&webhook(&["remove", id]));
    assert_eq!(webhook(&["list", "--json"]).document()["data"], json!([]));
    assert_eq!(webhook(&["remove", id]).code, 2);
}

#[test]
fn an_appeal_is_decided_by_a_second_person() {
    let home = with_evidence(36);
    assert_good(&home.run(&["rating", "assess", "triage"]));
    let appeal = ["rating", "appeal"];
    let file = [
        "file",
        "triage",
        "--dimension",
        "accuracy",
        "--justification",
        "The specification was wrong.",
        "--counter-evidence",
        "t1=It could not be done.",
        "--json",
    ];
    let filed = home.run(&[&appeal[..], &file].concat());
    assert_good(&filed);
    let id = filed.document()["id"].as_str().unwrap().to_owned();
    let listed = home.run(&[&appeal[..], &["list", "triage"]].concat());
    assert!(
        listed.stdout.starts_with(&id) && listed.stdout.contains("filed"),
        "{}",
        listed.stdout
    );
    let own = ["resolve", "triage", &id, "--review"];
    assert_eq!(home.run(&[&appeal[..], &own].concat()).code, 2);

    let create = ["key", "create", "--tenant", "default", "--scope", "all"];
    let key = home.run(&[&create[..], &["--principal", "dana"]].concat());
    let server = Server::start_with(&home, &[]);
    let key = key.stdout.trim_end();
    let start = ["--server", &server.url, "--key", key, "rating", "appeal"];
    let as_dana = |arguments: &[&str]| home.run(&[&start[..], arguments].concat());
    assert_eq!(as_dana(&["resolve", "triage", &id, "--reject"]).code, 2);
    let done = as_dana(&[
        "resolve",
        "triage",
        &id,
        "--reject",
        "--reason",
        "It could.",
    ]);
    assert_good(&done);
    let shown = as_dana(&["show", "triage", &id, "--json"]).document();
    assert_eq!(
        (&shown["status"], &shown["reviewed_by"]),
        (&json!("rejected"), &json!("dana"))
    );
}

#[test]
fn a_rating_of_a_data_folder_is_reviewed_by_another_principal_over_a_host() {
    let home = with_evidence(36);
    let policy = ["rating", "organization", "policy", "--review", "always"];
    assert_good(&home.run(&policy));
    assert_good(&home.run(&["rating", "assess", "triage"]));
    let review = ["rating", "review", "triage", "--approve"];
    let refused = home.run(&review);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    for part in [
        "the principal `local`",
        "touchstone serve",
        "touchstone key create --tenant default",
        "--server",
    ] {
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }

    let create = ["key", "create", "--tenant", "default", "--scope", "all"];
    let key = home.run(&[&create[..], &["--principal", "dana"]].concat());
    let server = Server::start_with(&home, &[]);
    let host = ["--server", &server.url, "--key", key.stdout.trim_end()];
    let reviewed = home.run(&[&host[..], &review[..]].concat());
    assert_good(&reviewed);
    assert!(
        reviewed.stdout.contains("badge issued"),
        "{}",
        reviewed.stdout
    );
    // Over a host, the hint would not help.
    let again = home.run(&[&host[..], &review[..]].concat());
    assert_eq!(again.code, 2, "{}", again.stderr);
    assert!(!again.stderr.contains("data folder"), "{}", again.stderr);
}

#[test]
fn the_commands_of_the_specification_work_as_printed() {
    let home = with_evidence(36);
    let enroll = [
        "enroll",
        "helper",
        "--domains",
        "code,research",
        "--tools",
        "grep,edit",
    ];
    let done = home.run(&[&enroll[..], &["--json"]].concat());
    assert_good(&done);
    let enrolled = done.document();
    assert_eq!(
        (&enrolled["domains"], &enrolled["tools"]),
        (&json!(["code", "research"]), &json!(["grep", "edit"]))
    );
    assert_good(&home.run(&["assess", "triage"]));
    assert_good(&home.run(&["report", "triage", "--output", "reports/"]));
    for file in ["reports/triage.md", "reports/triage.html"] {
        assert!(home.path(file).exists(), "{file}");
    }
    let summary = "reports/2026/civilization-summary.md";
    assert_good(&home.run(&["report", "--summary", "--output", summary]));
    assert!(home.path(summary).exists());
    let done = home.run(&["report", "--summary", "--output", "reports", "--json"]);
    assert_good(&done);
    assert_eq!(
        done.document()["outputs"],
        json!(["reports/summary.md", "reports/summary.html"])
    );
    for (order, first) in [("name", "helper"), ("performance", "triage")] {
        let done = home.run(&["report", "--summary", "--sort", order, "--json"]);
        assert_good(&done);
        assert_eq!(done.document()["agents"][0]["agent"]["name"], first);
    }
}

#[test]
fn task_logs_become_evidence_once() {
    let home = Home::empty();
    assert_good(&home.run(&["rating", "enroll", "triage"]));
    let row = |task: usize| {
        format!(
            "t{task},{},{},accepted,2,code,{task}\n",
            ago(7200),
            ago(3600)
        )
    };
    let header = "task_id,assigned_at,completed_at,status,complexity_level,domain,errors\n";
    let log = format!("{header}{}{}", row(0), row(1));
    std::fs::write(home.path("task_logs.csv"), &log).unwrap();
    let from = ago(86_400);
    let collect = [
        "rating",
        "collect",
        "triage",
        "--source",
        "task_logs",
        "--from",
        &from,
    ];
    let done = home.run(&collect);
    assert_good(&done);
    assert_eq!(done.stdout, "4 recorded\n");
    assert!(!done.stderr.contains("new"), "{}", done.stderr);
    // One more task, before the others.
    let rows = log.strip_prefix(header).unwrap();
    let log = format!("{header}{}{rows}t9,,,,,,\n", row(2));
    std::fs::write(home.path("march.csv"), log).unwrap();
    let collect = [
        "rating",
        "collect",
        "triage",
        "--source",
        "task_logs",
        "--file",
        "march.csv",
    ];
    let done = home.run(&collect);
    assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);
    assert_eq!(done.stdout, "6 recorded, 1 refused\n");
    assert!(
        done.stderr.contains("2 new, 4 already recorded")
            && done.stderr.contains("line 5: `completed_at` is missing"),
        "{}",
        done.stderr
    );
    let done = home.run(&[&collect[..], &["--json"]].concat());
    assert_eq!(done.document()["new"], 0);
    // With several logs, the error names the invalid one.
    std::fs::create_dir(home.path("task_logs")).unwrap();
    std::fs::write(home.path("task_logs/may.jsonl"), "{\"task_id\": 7}\n").unwrap();
    let done = home.run(&["rating", "collect", "triage", "--source", "task_logs"]);
    assert_eq!(done.stdout, "4 recorded, 1 refused\n", "{}", done.stderr);
    assert!(
        done.stderr.contains("task_logs/may.jsonl, line 1: "),
        "{}",
        done.stderr
    );
    let done = Home::empty().run(&["rating", "collect", "triage", "--source", "task_logs"]);
    assert_eq!(done.code, 2, "{}", done.stderr);
}

#[test]
fn progress_is_shown_against_what_a_rating_needs() {
    let home = with_evidence(24);
    assert_good(&home.run(&["rating", "enroll", "idle"]));
    let done = home.run(&["rating", "progress"]);
    assert_good(&done);
    assert_eq!(
        done.stdout,
        "triage  performance 24 of 20 tasks, capability 24 of 30 tasks\n\
         idle  performance 0 of 20 tasks, capability 0 of 30 tasks\n"
    );
    let done = home.run(&["rating", "progress", "triage", "--json"]);
    assert_good(&done);
    let agents = &done.document()["agents"];
    assert_eq!(agents.as_array().unwrap().len(), 1);
    assert_eq!(
        agents[0]["capability"],
        json!({"tasks": 24, "required": 30, "enough": false})
    );
    let done = Done::of(
        home.touchstone()
            .env("CLICOLOR_FORCE", "1")
            .env("COLUMNS", "120")
            .args(["rating", "progress", "triage"]),
    );
    assert_good(&done);
    let full = "█".repeat(12);
    let part = format!("{}{}", "█".repeat(10), "░".repeat(2));
    assert!(
        done.stdout.contains(&full) && done.stdout.contains(&part),
        "{}",
        done.stdout
    );
    // The page for everybody shows it as well.
    assert_good(&home.run(&["rating", "report", "--summary", "--output", "all.html"]));
    let page = std::fs::read_to_string(home.path("all.html")).unwrap();
    assert!(
        page.contains("24 of 30 tasks") && page.contains("0 of 20 tasks"),
        "{page}"
    );
    assert_eq!(home.run(&["rating", "progress", "nobody"]).code, 2);
}

#[test]
fn dimensions_are_shown_over_all_agents() {
    let home = with_evidence(36);
    assert_good(&home.run(&["rating", "enroll", "idle"]));
    assert_good(&home.run(&["rating", "assess", "triage"]));
    let done = home.run(&["rating", "dimensions"]);
    assert_good(&done);
    for told in [
        "tool proficiency  mean 0.",
        "of 1 assessed",
        "orchestration skills  no agents assessed",
        "not rated  idle",
    ] {
        assert!(done.stdout.contains(told), "{told}: {}", done.stdout);
    }
    let only = ["rating", "dimensions", "--dimension", "tools", "--json"];
    let done = home.run(&only);
    assert_good(&done);
    let found = done.document();
    assert_eq!(found["dimensions"].as_array().unwrap().len(), 1);
    let agent = &found["dimensions"][0]["agents"][0];
    assert_eq!(
        (&agent["name"], agent["score"].is_number()),
        (&json!("triage"), true)
    );
    let done = home.run(&["rating", "report", "--summary"]);
    assert_good(&done);
    assert!(
        done.stdout.contains("### Tool Proficiency") && done.stdout.contains("| triage | 0."),
        "{}",
        done.stdout
    );
}

#[test]
fn memory_files_become_evidence_once() {
    let home = Home::empty();
    assert_good(&home.run(&["rating", "enroll", "triage"]));
    let task = |task: &str| {
        format!(
            "task_id: {task}\nassigned_at: {}\ncompleted_at: {}\nstatus: accepted\ncomplexity_level: 2\ndomain: code\n",
            ago(7200),
            ago(3600)
        )
    };
    let folder = home.path("memory_files");
    std::fs::create_dir_all(folder.join("april")).unwrap();
    let first = format!("---\n{}---\nThe customer wanted a refund.\n", task("1"));
    std::fs::write(folder.join("april/refund.md"), &first).unwrap();
    std::fs::write(
        folder.join("people.md"),
        "---\ntitle: People\n---\nDana decides.\n",
    )
    .unwrap();
    let collect = ["rating", "collect", "triage", "--source", "memory_files"];
    let done = home.run(&collect);
    assert_good(&done);
    assert_eq!(done.stdout, "2 recorded\n");
    // The same task in another file, one more task, and one that grades itself.
    let graded = format!("```task\n{}quality_score: 1.0\n```\n", task("3"));
    let log = format!("{first}\n```task\n{}```\n\n{graded}", task("2"));
    std::fs::write(home.path("log.md"), log).unwrap();
    let done = home.run(&[&collect[..], &["--file", "log.md"]].concat());
    assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);
    assert_eq!(done.stdout, "4 recorded, 1 refused\n");
    assert!(
        done.stderr.contains("2 new, 2 already recorded")
            && done
                .stderr
                .contains("log.md, line 20: `quality_score` is a grade"),
        "{}",
        done.stderr
    );
    let done = home.run(&[&collect[..], &["--json"]].concat());
    assert_eq!(done.document()["new"], 0);
    let done = Home::empty().run(&collect);
    assert_eq!(done.code, 2, "{}", done.stderr);
    assert!(done.stderr.contains("--file FOLDER"), "{}", done.stderr);
}

#[test]
fn an_event_is_entered_by_hand_once() {
    let home = Home::empty();
    assert_good(&home.run(&["rating", "enroll", "triage"]));
    let at = ago(3600);
    let collect = [
        "rating", "collect", "triage", "--source", "manual", "--json",
    ];
    let revised = ["--event", "task_revised", "--at", &at, "--set", "task_id=7"];
    let members = [
        "--set",
        "revision_number=1",
        "--set",
        "reason_code=minor",
        "--set",
        "changes=null",
    ];
    let entry = [&collect[..], &revised, &members].concat();
    for new in [1, 0] {
        let done = home.run(&entry);
        assert_good(&done);
        let document = done.document();
        assert_eq!(
            (&document["accepted"], &document["new"]),
            (&json!(1), &json!(new))
        );
    }
    let done = home.run(&[&collect[..], &revised].concat());
    assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);
    let error = done.document()["errors"][0]["error"].to_string();
    assert!(error.contains("revision_number"), "{error}");
    for wrong in [
        [&collect[..], &["--event", "task_revised"]].concat(),
        [&collect[..], &["--event", "task_dreamt", "--at", &at]].concat(),
        vec!["rating", "collect", "--source", "events.jsonl", "--at", &at],
        vec!["rating", "collect", "--source", "manual", "--file", "a.md"],
    ] {
        let done = home.run(&wrong);
        assert_eq!(done.code, 2, "{}{}", done.stdout, done.stderr);
    }
}

#[test]
fn baselines_are_proposed_from_the_first_tasks() {
    let home = with_evidence(36);
    let done = home.run(&["rating", "baselines", "triage", "--json"]);
    assert_good(&done);
    let proposal = done.document();
    assert_eq!(
        (&proposal["tasks"], &proposal["applied"]),
        (&json!(36), &json!(false))
    );
    assert_eq!(
        proposal["baseline_seconds_by_complexity"],
        json!({"1": 300.0, "2": 300.0, "3": 300.0})
    );
    let done = home.run(&["rating", "baselines", "triage", "--apply"]);
    assert_eq!(done.code, 4, "{}{}", done.stdout, done.stderr);
    write(&home, "more.jsonl", &tasks("triage", 60));
    assert_eq!(
        home.run(&["rating", "collect", "--source", "more.jsonl"])
            .code,
        0
    );
    assert_good(&home.run(&["rating", "baselines", "triage", "--apply"]));
    assert_good(&home.run(&["rating", "assess", "triage"]));
    let done = home.run(&["rating", "assess", "triage", "--json"]);
    let config = &done.document()["config_snapshot"];
    assert_eq!(config["baseline_seconds_by_complexity"]["3"], 300.0);
    assert_eq!(config["baseline_seconds_by_complexity"]["5"], 7200.0);
}
