//! Dependencies between the modules of the main package, read from the `use` lines: no crate
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

#[rstest]
#[case("domain", &["service", "http", "cli", "store", "agent", "registry", "net", "render", "app", "ports"])]
#[case("ports", &["service", "http", "cli", "store", "agent", "registry", "net", "render", "app"])]
#[case("service", &["http", "cli", "agent", "registry", "app"])]
#[case("store", &["service", "http", "cli", "agent", "registry", "render", "app"])]
#[case("agent", &["service", "http", "cli", "store", "registry", "render", "app"])]
#[case("registry", &["service", "http", "cli", "store", "agent", "render", "app"])]
#[case("http", &["cli", "agent", "registry", "app"])]
#[case("render", &["service", "http", "store", "agent", "registry", "net", "app", "ports"])]
fn no_arrow_points_the_wrong_way(#[case] room: &str, #[case] forbidden: &[&str]) {
    let wrong: Vec<String> = forbidden
        .iter()
        .flat_map(|other| mentions(room, &format!("crate::{other}::")))
        .collect();
    assert!(
        wrong.is_empty(),
        "{room} must not use these:\n{}",
        wrong.join("\n")
    );
}

/// Modules that contain only rules.
const PURE: [&str; 10] = [
    "domain",
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
    let wrong = mentions("store", "fetch_optional(self.writer");
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
