//! The hooks of pre-commit.

use super::Pipeline;
use crate::cli::home::Home;

#[test]
fn changed_files_check_their_packs_and_suites() {
    let Some(mut pipeline) = Pipeline::new("the hooks of pre-commit") else {
        return;
    };
    pipeline.home = Home::with_folder();
    let write = |name: &str, text: &str| std::fs::write(pipeline.home.path(name), text).unwrap();
    let suites = std::fs::read_dir(pipeline.home.path("my-agent/evals")).unwrap();
    let suite = suites
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .find(|name| name.ends_with(".json") && !name.ends_with(".scoring.json"))
        .unwrap();
    let suite = format!("my-agent/evals/{suite}");

    let good = pipeline.script("lint", &["my-agent/pack.json", &suite]);
    assert_eq!(good.code, 0, "{}{}", good.stdout, good.stderr);
    assert!(
        good.stdout.contains("my-agent: no errors"),
        "{}",
        good.stdout
    );
    assert!(good.stdout.contains("tasks"), "{}", good.stdout);

    write("other.json", "{\"suiteId\": 1}");
    write("broken.yaml", "tasks: [");
    let skipped = pipeline.script("lint", &["other.json", "broken.yaml", "deleted.json"]);
    assert_eq!(
        (skipped.code, skipped.stdout.as_str()),
        (0, ""),
        "{}",
        skipped.stderr
    );

    let text = pipeline.read(&suite);
    write(&suite, &text.replacen("\"taskId\"", "\"taskIdentity\"", 1));
    let bad = pipeline.script("lint", &[&suite]);
    assert_eq!(bad.code, 1, "{}{}", bad.stdout, bad.stderr);
    let usage = pipeline.script("lint", &["--often", &suite]);
    assert_eq!(usage.code, 2, "{}", usage.stderr);
}
