//! Scenarios of a folder that `TOUCHSTONE_EXTRA_VECTORS` names: `availability.json` with a Python
//! program that plays the agent. Over TLS as well, if the Python installation supports it.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::cli::home::{Done, Home};
use crate::support::vectors;

struct Played {
    child: Child,
    ready: Value,
}

impl Drop for Played {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn python() -> PathBuf {
    std::env::var_os("TOUCHSTONE_TEST_PYTHON").map_or_else(|| "python3".into(), PathBuf::from)
}

/// Whether Python has a module.
fn has(module: &str) -> bool {
    let imported = Command::new(python())
        .args(["-c", &format!("import {module}")])
        .stderr(Stdio::null())
        .status();
    let has = imported.is_ok_and(|it| it.success());
    if !has {
        eprintln!("SKIPPED: scenarios that take the Python module {module}");
    }
    has
}

fn play(agent: &Path, arguments: &[&str]) -> Played {
    let mut child = Command::new(python())
        .arg("-B")
        .arg(agent)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let out = child.stdout.take().unwrap();
    BufReader::new(out).read_line(&mut line).unwrap();
    let ready = serde_json::from_str(&line).unwrap();
    Played { child, ready }
}

fn place(url: &Value) -> String {
    let (_, place) = url.as_str().unwrap().split_once("://").unwrap();
    place.to_owned()
}

/// The agent's card, fetched without certificate verification.
fn card(played: &Played) -> Vec<u8> {
    let read = "import ssl, sys, urllib.request as u; \
        sys.stdout.buffer.write(u.urlopen(sys.argv[1], context=ssl._create_unverified_context()).read())";
    let card = Command::new(python())
        .args(["-c", read, played.ready["card"].as_str().unwrap()])
        .output()
        .unwrap();
    assert!(card.status.success(), "{card:?}");
    card.stdout
}

fn asked(played: &Played) -> Value {
    let home = Home::empty();
    std::fs::write(home.path("card.json"), card(played)).unwrap();
    let mut command = home.touchstone();
    if let Some(authority) = played.ready["ca"].as_str() {
        command.env("SSL_CERT_FILE", authority);
    }
    command.args(["card", "score", "card.json", "--live", "--json"]);
    command.args(["--allow-private", &place(&played.ready["base"])]);
    if played.ready["grpc"].is_string() {
        command.args(["--allow-private", &place(&played.ready["grpc"])]);
    }
    Done::of(&mut command).document()["availability"].clone()
}

/// Compares the result of a scenario with its expectation.
fn compared(scenario: &Value, tls: bool, found: &Value) -> Result<(), String> {
    let (endpoint, transports, quality) = (
        &found["breakdown"]["primaryEndpoint"],
        &found["breakdown"]["transportSupport"],
        &found["breakdown"]["responseQuality"],
    );
    let count = |name: &str| transports[name].as_u64().unwrap_or_default();
    let working = count("additionalInterfacesWorking");
    let fast = endpoint["responseTimeMs"]
        .as_u64()
        .is_some_and(|it| it < 3_000);
    let flags = json!([
        endpoint["responds"],
        fast,
        endpoint["hasCors"],
        transports["preferredTransportWorks"],
        working,
        working + count("additionalInterfacesFailed"),
        quality["validStructure"],
        quality["properContentType"],
        quality["properErrorHandling"],
    ]);
    let wanted = &scenario[if tls { "httpsTotal" } else { "httpTotal" }];
    let rating = &scenario["rating"][usize::from(!tls)];
    let verified = tls && scenario["validTls"] != false;
    let same = flags == scenario["flags"]
        && found["total"].as_f64() == wanted.as_f64()
        && found["rating"] == *rating
        && endpoint["validTls"] == verified;
    if same {
        return Ok(());
    }
    Err(format!(
        "{} (TLS: {tls}): {found} instead of {wanted} {rating}, {}",
        scenario["name"], scenario["flags"]
    ))
}

#[test]
fn every_scenario_of_a_named_folder_ends_as_expected() {
    let Some(named) = vectors::extra() else {
        return;
    };
    let (scenarios, agent) = (named.join("availability.json"), named.join("mock_agent.py"));
    if !scenarios.is_file() || !agent.is_file() {
        eprintln!("SKIPPED: no scenarios in {}", named.display());
        return;
    }
    let (tls_at_hand, grpc_at_hand) = (has("cryptography"), has("grpc"));
    let document: Value = serde_json::from_slice(&std::fs::read(scenarios).unwrap()).unwrap();
    let (mut played, mut told) = (0, Vec::new());
    for scenario in document["scenarios"].as_array().unwrap() {
        let arguments = scenario["args"].as_array().unwrap();
        let arguments: Vec<&str> = arguments.iter().map(|it| it.as_str().unwrap()).collect();
        if arguments.contains(&"--grpc") && !grpc_at_hand {
            continue;
        }
        for (tls, total) in [(false, "httpTotal"), (true, "httpsTotal")] {
            if scenario.get(total).is_none() || (tls && !tls_at_hand) {
                continue;
            }
            let more: &[&str] = match tls && !arguments.contains(&"--tls") {
                true => &["--tls", "valid"],
                false => &[],
            };
            let agent = play(&agent, &[&arguments, more].concat());
            told.extend(compared(scenario, tls, &asked(&agent)).err());
            played += 1;
        }
    }
    eprintln!("{played} scenarios of {}", named.display());
    assert!(told.is_empty(), "\n  {}", told.join("\n  "));
    assert!(played > 0);
}
