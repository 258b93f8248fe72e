//! The configuration: invalid values are refused by name and never silently corrected.

use rstest::rstest;
use touchstone::config::Config;

#[rstest]
fn a_limit_of_zero_is_rejected(
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

#[rstest]
#[case::no_tenant("tenant = \"\"\nnamespaces = [\"vendor.acme.*\"]", Some("`tenant`"))]
#[case::nothing("tenant = \"acme\"\nnamespaces = []", Some("`namespaces`"))]
#[case::everything("tenant = \"acme\"\nnamespaces = [\"*\"]", Some("`*`"))]
#[case::a_whole_scope("tenant = \"acme\"\nnamespaces = [\"vendor.*\"]", Some("`vendor.*`"))]
#[case::a_namespace(
    "tenant = \"acme\"\nnamespaces = [\"vendor.acme.*\", \"private.host.one\"]",
    None
)]
fn published_namespaces_and_their_tenant_must_be_configured(
    #[case] settings: &str,
    #[case] fault: Option<&str>,
) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("touchstone.toml");
    std::fs::write(&file, format!("[packs.registry]\n{settings}\n")).unwrap();
    let config = Config::load(Some(&file)).unwrap();
    match (config.packs.publication(), fault) {
        (Ok(publication), None) => assert!(publication.is_some()),
        (Err(refused), Some(fault)) => assert!(refused.to_string().contains(fault), "{refused}"),
        (found, _) => panic!("{found:?}"),
    }
}

#[rstest]
#[case::alone("", Some(15))]
#[case::in_a_cluster("[cluster]\nnats = \"nats://127.0.0.1:4222\"", Some(5))]
#[case::chosen(
    "[worker]\nlease_s = 20\n[cluster]\nnats = \"nats://127.0.0.1:4222\"",
    Some(20)
)]
#[case::too_short("[worker]\nlease_s = 2", None)]
fn a_lease_is_shorter_in_a_cluster(#[case] settings: &str, #[case] seconds: Option<u64>) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("touchstone.toml");
    std::fs::write(&file, settings).unwrap();
    match (Config::load(Some(&file)), seconds) {
        (Ok(config), Some(seconds)) => assert_eq!(config.lease_s(), seconds),
        (Err(refused), None) => {
            let text = refused.to_string();
            assert!(
                text.contains("`worker.lease_s` must be at least 3, got 2"),
                "{text}"
            );
        }
        (found, _) => panic!("{found:?}"),
    }
}

#[test]
fn nothing_is_published_unless_the_operator_says_so() {
    let config = Config::load(None).unwrap();
    assert!(config.packs.publication().unwrap().is_none());
}

#[rstest]
#[case::nothing("", None)]
#[case::all(
    "private_targets = [\"10.1.0.7:8443\"]\n[[ratings.reach.credentials]]\nname = \"desk\"\norigin = \"https://desk.example\"\n\
     api_key_env = \"SET\"\ntenants = [\"acme\"]\n[[ratings.reach.commands]]\nname = \"desk\"\ncommand = \"true\"\ntenants = []",
    None
)]
#[case::no_port(
    "private_targets = [\"10.1.0.7\"]",
    Some("ratings.reach.private_targets")
)]
#[case::no_origin(
    "[[ratings.reach.credentials]]\nname = \"desk\"\norigin = \"https://desk.example/a2a\"\napi_key_env = \"SET\"\ntenants = []",
    Some("ratings.reach.credentials[0].origin")
)]
#[case::no_key(
    "[[ratings.reach.credentials]]\nname = \"desk\"\norigin = \"https://desk.example\"\napi_key_env = \"UNSET\"\ntenants = []",
    Some("ratings.reach.credentials[0].api_key_env")
)]
#[case::twice(
    "[[ratings.reach.commands]]\nname = \"desk\"\ncommand = \"true\"\ntenants = []\n\
     [[ratings.reach.commands]]\nname = \"desk\"\ncommand = \"false\"\ntenants = []",
    Some("ratings.reach.commands[1].name")
)]
fn settings_for_reaching_remote_agents_are_validated(
    #[case] settings: &str,
    #[case] fault: Option<&str>,
) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("touchstone.toml");
    std::fs::write(&file, format!("[ratings.reach]\n{settings}\n")).unwrap();
    let config = Config::load(Some(&file)).unwrap();
    let environment = |name: &str| (name == "SET").then(|| "canary-key".to_owned());
    let read = config.ratings.reach.settings(&environment);
    match (read, fault) {
        (Ok(read), None) => {
            let shown = format!("{config:?}{read:?}");
            assert!(!shown.contains("canary-key"), "{shown}");
        }
        (Err(refused), Some(fault)) => assert!(refused.to_string().contains(fault), "{refused}"),
        (found, _) => panic!("{found:?}"),
    }
}

#[rstest]
#[case::usual("", Some(("1.0", None)))]
#[case::both("preferred_version = \"1.0\"", Some(("1.0", None)))]
#[case::major_2("preferred_version = \"2.0\"", Some(("2.0", None)))]
#[case::clients("min_client_version = \"2.40\"", Some(("1.0", Some((2, 40)))))]
#[case::unknown("preferred_version = \"3.0\"", None)]
#[case::number("preferred_version = 2.0", None)]
#[case::one_number("min_client_version = \"2\"", None)]
#[case::patch("min_client_version = \"2.40.1\"", None)]
#[case::preview("v2_preview = true", None)]
fn the_versions_of_the_protocol_are_chosen_by_the_preferred_one(
    #[case] settings: &str,
    #[case] expected: Option<(&str, Option<(u32, u32)>)>,
) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("touchstone.toml");
    std::fs::write(&file, format!("[openwop]\n{settings}\n")).unwrap();
    let found = Config::load(Some(&file));
    let Some((preferred, min_client)) = expected else {
        let refused = found.unwrap_err().to_string();
        let name = settings.split(' ').next().unwrap();
        assert!(refused.contains(name), "{refused}");
        return;
    };
    let offered = found.unwrap().openwop.offered().unwrap();
    assert_eq!(offered.majors.preferred().version(), preferred);
    assert_eq!(offered.min_client, min_client);
}
