//! Dependencies within a crate, read from the `use` lines. Cargo keeps the order of the crates.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rstest::rstest;

/// The Rust files below `place`, a folder or the path of a module.
pub fn sources(place: &Path) -> Vec<PathBuf> {
    let single = place.with_extension("rs");
    let mut found: Vec<PathBuf> = single.is_file().then_some(single).into_iter().collect();
    let mut folders = vec![place.to_owned()];
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
    found
}

/// The text of a file without its tests.
pub fn production(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let tests = text.find("#[cfg(test)]\nmod tests {");
    text[..tests.unwrap_or(text.len())].to_owned()
}

/// The lines of production code below `place` that mention `needle`.
fn mentions(place: &Path, needle: &str) -> Vec<String> {
    let mut found = Vec::new();
    for path in sources(place) {
        for (number, line) in production(&path).lines().enumerate() {
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

/// The source folder of every crate, the main package last.
pub fn crates() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let entries = fs::read_dir(root.join("crates")).unwrap();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path().join("src"))
        .collect();
    assert!(found.len() > 5, "there are {} crates", found.len());
    found.push(root.join("src"));
    found
}

/// The names by which code refers to its own crate and to the others.
fn names() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let entries = fs::read_dir(root.join("crates")).unwrap();
    let mut names = vec!["crate".to_owned()];
    for entry in entries {
        let folder = entry.unwrap().file_name().into_string().unwrap();
        names.push(format!("touchstone_{}", folder.replace('-', "_")));
    }
    names
}

/// In every crate, storage and adapters know neither use cases nor routes nor commands, and routes
/// do not know commands.
#[rstest]
#[case("store", &["service", "http", "cli", "render"])]
#[case("ports", &["service", "http", "cli", "store", "render"])]
#[case("service", &["http", "cli"])]
#[case("http", &["cli"])]
#[case("render", &["service", "http", "store"])]
fn layers_depend_only_on_lower_layers(#[case] layer: &str, #[case] forbidden: &[&str]) {
    let (mut files, mut wrong) = (0, Vec::new());
    for folder in crates() {
        let place = folder.join(layer);
        files += sources(&place).len();
        for name in names() {
            for other in forbidden {
                wrong.extend(mentions(&place, &format!("{name}::{other}::")));
            }
        }
    }
    assert_ne!(files, 0, "no crate has a module {layer}");
    assert!(
        wrong.is_empty(),
        "{layer} must not use these:\n{}",
        wrong.join("\n")
    );
}

/// Crates that contain only rules.
const PURE_CRATES: [&str; 2] = ["kit", "openwop"];
/// The modules of other crates that contain only rules.
const PURE_MODULES: [&str; 4] = ["budget", "credential", "rules", "wire"];

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
#[case("touchstone_host")]
#[case("crate::ports")]
#[case("crate::service")]
#[case("crate::store")]
#[case("crate::http")]
#[case("crate::cli")]
#[case("::service::")]
#[case("::store::")]
fn pure_modules_use_no_clock_files_or_environment(#[case] needle: &str) {
    for module in PURE_MODULES {
        let folders = crates();
        let mut files = folders.iter().map(|folder| sources(&folder.join(module)));
        let found = files.any(|files| !files.is_empty());
        assert!(found, "no crate has a module {module}");
    }
    let mut wrong = Vec::new();
    for folder in crates() {
        let name = folder.parent().unwrap().file_name().unwrap();
        if PURE_CRATES.iter().any(|pure| name == *pure) {
            wrong.extend(mentions(&folder, needle));
        } else {
            let modules = PURE_MODULES.iter().map(|module| folder.join(module));
            wrong.extend(modules.flat_map(|module| mentions(&module, needle)));
        }
    }
    assert!(
        wrong.is_empty(),
        "rules must not do IO:\n{}",
        wrong.join("\n")
    );
}

/// Features register what the core must not know by name.
#[rstest]
#[case("oasis")]
#[case("ratings")]
#[case("agent_cards")]
#[case("cluster")]
fn the_core_depends_on_no_feature_above_it(#[case] feature: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for core in ["host", "packs", "agents", "runs", "deployments"] {
        let manifest = fs::read_to_string(root.join("crates").join(core).join("Cargo.toml"));
        let name = format!("touchstone-{}", feature.replace('_', "-"));
        assert!(
            !manifest.unwrap().contains(&name),
            "{core} depends on {name}"
        );
    }
}

/// The names of features as they occur in code, such as labels, paths and types.
#[rstest]
#[case("oasis")]
#[case("Oasis")]
#[case("OASIS")]
#[case("aaaf")]
#[case("Aaaf")]
#[case("AAAF")]
#[case("ratings")]
#[case("agent_card")]
#[case("agent-card")]
fn runs_and_deployments_name_no_feature_above_them(#[case] name: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    let found: Vec<String> = ["runs", "deployments"]
        .iter()
        .flat_map(|core| mentions(&root.join(core).join("src"), name))
        .collect();
    assert!(
        found.is_empty(),
        "let the feature register this instead:\n{}",
        found.join("\n")
    );
}

/// Most files that a folder may have: more are hard to find anything in.
const MOST_FILES: usize = 15;
/// Folders that are still larger. Split them by subject, then remove them here.
const LARGE_FOLDERS: [&str; 3] = [
    "crates/runs/src/cli/run",
    "tests/it/cli/runs",
    "tests/it/console",
];

#[test]
fn folders_have_few_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files: BTreeMap<PathBuf, usize> = BTreeMap::new();
    let places = crates().into_iter().chain([root.join("tests/it")]);
    for path in places.flat_map(|place| sources(&place)) {
        let folder = path.parent().unwrap().strip_prefix(root).unwrap();
        *files.entry(folder.to_owned()).or_default() += 1;
    }
    let large: Vec<(&Path, usize)> = files
        .iter()
        .map(|(folder, count)| (folder.as_path(), *count))
        .filter(|(_, count)| *count > MOST_FILES)
        .filter(|(folder, _)| {
            !LARGE_FOLDERS
                .iter()
                .any(|known| *folder == Path::new(known))
        })
        .collect();
    assert!(
        large.is_empty(),
        "split these folders by subject: {large:?}"
    );
}

/// A database commits a single statement after its last row: a caller who reads only the first row
/// misses a failed commit.
#[test]
fn writing_statements_read_all_their_rows() {
    let wrong: Vec<String> = crates()
        .iter()
        .flat_map(|folder| {
            [
                "fetch_optional(self.writer",
                "fetch_optional(database.writer",
            ]
            .into_iter()
            .flat_map(|needle| mentions(folder, needle))
        })
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
