//! Dependencies between the features of the main package, read from the `use` lines: no crate
//! boundary enforces these.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rstest::rstest;

/// Every source file below a module.
fn sources(room: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = match room.starts_with("crates/") {
        true => root.to_owned(),
        false => root.join("src"),
    };
    let single = root.join(format!("{room}.rs"));
    let mut found: Vec<PathBuf> = single.is_file().then_some(single).into_iter().collect();
    let mut folders = vec![root.join(room)];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    assert!(!found.is_empty(), "module {room} does not exist");
    found
}

/// The lines of production code that mention `needle`.
fn mentions(room: &str, needle: &str) -> Vec<String> {
    let mut found = Vec::new();
    for path in sources(room) {
        let text = fs::read_to_string(&path).unwrap();
        let production = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for (number, line) in production.lines().enumerate() {
            if line.contains(needle) && !line.trim_start().starts_with("//") {
                found.push(format!(
                    "{}:{}: {}",
                    path.display(),
                    number + 1,
                    line.trim()
                ));
            }
        }
    }
    found
}

/// What a feature may use, besides its own modules and crates.
#[rstest]
#[case("host", &[])]
#[case("agents", &["host", "packs"])]
#[case("packs", &["host"])]
#[case("runs", &["host", "packs", "agents"])]
#[case("deployments", &["host", "packs", "agents", "runs"])]
#[case("oasis", &["host", "packs", "agents", "runs", "deployments"])]
#[case("ratings", &["host", "packs", "agents", "runs", "deployments", "oasis"])]
#[case("agent_cards", &["host", "packs", "agents", "runs", "deployments", "oasis", "ratings"])]
fn a_feature_uses_only_those_below_it(#[case] feature: &str, #[case] below: &[&str]) {
    let wrong: Vec<String> = FEATURES
        .iter()
        .filter(|other| **other != feature && !below.contains(other))
        .flat_map(|other| {
            let mut lines = mentions(feature, &format!("crate::{other}::"));
            lines.extend(mentions(feature, &format!("crate::{other};")));
            lines
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "{feature} must not use these:\n{}",
        wrong.join("\n")
    );
}

const FEATURES: [&str; 14] = [
    "host",
    "agents",
    "runs",
    "deployments",
    "oasis",
    "packs",
    "agent_cards",
    "ratings",
    "app",
    "cli",
    "config",
    "http",
    "services",
    "kinds",
];

/// Files with uses that point the wrong way. Remove from this list; never add to it.
const LEFT: [&str; 0] = [];

/// In every feature, storage and adapters know neither use cases nor routes nor commands, and
/// routes do not know commands.
#[rstest]
#[case("store", &["service", "http", "cli", "render"])]
#[case("ports", &["service", "http", "cli", "store", "render"])]
#[case("service", &["http", "cli"])]
#[case("http", &["cli"])]
#[case("render", &["service", "http", "store"])]
fn no_arrow_points_the_wrong_way(#[case] layer: &str, #[case] forbidden: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for feature in FEATURES {
        let room = format!("{feature}/{layer}");
        let single = root.join(format!("{room}.rs"));
        if !root.join(&room).is_dir() && !single.is_file() {
            continue;
        }
        for (feature, other) in FEATURES
            .iter()
            .flat_map(|it| forbidden.iter().map(move |other| (it, other)))
        {
            wrong.extend(mentions(&room, &format!("crate::{feature}::{other}::")));
        }
    }
    assert!(
        wrong.is_empty(),
        "{layer} must not use these:\n{}",
        wrong.join("\n")
    );
}

/// Crates that contain only rules.
const PURE: [&str; 9] = [
    "crates/kit",
    "crates/openwop",
    "crates/agents",
    "crates/oasis",
    "crates/runs",
    "crates/packs",
    "crates/deployments",
    "crates/ratings",
    "crates/agent-cards",
];

#[rstest]
#[case("tokio::")]
#[case("axum::")]
#[case("sqlx::")]
#[case("reqwest::")]
#[case("std::fs")]
#[case("std::env")]
#[case("Timestamp::now")]
#[case("SystemTime")]
#[case("Instant::now")]
#[case("rand::")]
fn the_rules_know_no_world(#[case] needle: &str) {
    let wrong: Vec<String> = PURE
        .iter()
        .flat_map(|room| mentions(room, needle))
        .collect();
    assert!(
        wrong.is_empty(),
        "rules must not do IO:\n{}",
        wrong.join("\n")
    );
}

/// A database commits a single statement after its last row: a caller who reads only the first row
/// misses a failed commit.
#[test]
fn rows_of_a_writing_statement_are_read_to_the_end() {
    let wrong: Vec<String> = FEATURES
        .iter()
        .filter(|it| {
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("src")
                .join(it)
                .is_dir()
        })
        .flat_map(|it| mentions(it, "fetch_optional(self.writer"))
        .collect();
    assert!(wrong.is_empty(), "use `fetch_all`:\n{}", wrong.join("\n"));
}

/// `./test FEATURE` runs the modules that its table names.
#[test]
fn every_feature_has_integration_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let modules_of = |feature: &str| {
        let function = r#"eval "$(sed -n '/^modules_of() {$/,/^}$/p' test)""#;
        let script = format!("{function}\nmodules_of {feature}");
        let done = Command::new("bash")
            .args(["-c", &script])
            .current_dir(root)
            .output()
            .unwrap();
        String::from_utf8(done.stdout).unwrap()
    };
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        let feature = entry.unwrap().file_name().into_string().unwrap();
        let modules = modules_of(&feature);
        assert_ne!(modules, "", "./test has no row for crates/{feature}");
        for module in modules.split_whitespace() {
            let path = root.join("tests/it").join(module.replace("::", "/"));
            assert!(
                path.is_dir() || path.with_extension("rs").is_file(),
                "./test {feature} names {module}, which is not in tests/it"
            );
        }
    }
}
