//! The configuration: what cannot be is refused by name and never silently put right.

use rstest::rstest;
use touchstone::config::Config;

#[rstest]
fn a_bound_of_nothing_is_refused(
    #[values(
        "max_tasks_per_suite",
        "default_concurrency",
        "max_concurrency",
        "max_concurrency_per_tenant",
        "max_connections",
        "max_connections_per_address",
        "max_run_duration_s",
        "max_node_executions"
    )]
    name: &str,
) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("touchstone.toml");
    std::fs::write(&file, format!("[limits]\n{name} = 1\n")).unwrap();
    Config::load(Some(&file)).unwrap();
    std::fs::write(&file, format!("[limits]\n{name} = 0\n")).unwrap();
    let refused = Config::load(Some(&file)).unwrap_err().to_string();
    assert!(refused.contains(&format!("limits.{name}")), "{refused}");
    assert!(refused.contains("must be at least 1"), "{refused}");
}
