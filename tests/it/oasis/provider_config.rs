//! `[oasis]`: the configured environment providers; invalid settings are refused by name.

use std::time::Duration;

use rstest::rstest;
use touchstone::config::Config;
use touchstone_host::config::Error;

fn load(text: &str) -> Result<Config, Error> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("touchstone.toml");
    std::fs::write(&file, text).unwrap();
    Config::load(Some(&file))
}

/// A provider with one setting replaced or added.
fn provider(setting: &str) -> String {
    let key = setting.split_once('=').map_or("-", |(key, _)| key);
    let settings = [r#"name = "desk""#, r#"url = "http://127.0.0.1:8090""#];
    let settings = settings.iter().filter(|it| !it.starts_with(key));
    let settings: Vec<&str> = settings.copied().chain([setting]).collect();
    format!("[[oasis.providers]]\n{}\n", settings.join("\n"))
}

#[test]
fn a_provider_needs_a_name_and_an_address() {
    let config = load(&provider("")).unwrap();
    let accesses = config.oasis.accesses(&|_| None).unwrap();
    assert_eq!(accesses.len(), 1);
    let access = &accesses[0];
    assert_eq!(access.name, "desk");
    assert_eq!(access.url.as_str(), "http://127.0.0.1:8090/");
    assert!(access.token.is_none());
    assert_eq!(access.timeout, Duration::from_secs(30));
    assert_eq!(access.max_response_bytes, 8 * 1024 * 1024);
    assert!(access.agent_origins.is_empty());
    assert_eq!(access.clock_tolerance, Duration::from_secs(60));
}

#[test]
fn no_provider_is_there_unless_it_is_configured() {
    let config = load("").unwrap();
    assert!(config.oasis.accesses(&|_| None).unwrap().is_empty());
    assert_eq!(config.oasis.evaluator, None);
    assert_eq!(config.oasis.lab_framework, None);
}

#[test]
fn declarations_about_evaluator_and_lab_are_kept() {
    let declared = "[oasis]\nevaluator = \"Acme Assurance\"\nlab_framework = \"none\"\n";
    let config = load(declared).unwrap();
    assert_eq!(config.oasis.evaluator.as_deref(), Some("Acme Assurance"));
    assert_eq!(config.oasis.lab_framework.as_deref(), Some("none"));
}

#[test]
fn a_provider_has_a_lab_of_its_own_or_that_of_the_host() {
    let two = "[oasis]\nlab_framework = \"ISO/IEC 17025\"\n\
        [[oasis.providers]]\nname = \"own\"\nurl = \"http://127.0.0.1:1\"\nlab_framework = \"none\"\n\
        [[oasis.providers]]\nname = \"other\"\nurl = \"http://127.0.0.1:2\"\n";
    let accesses = load(two).unwrap().oasis.accesses(&|_| None).unwrap();
    let labs = accesses.iter().map(|it| it.lab_framework.as_deref());
    assert!(labs.eq([Some("none"), Some("ISO/IEC 17025")]));
}

#[rstest]
#[case(r#"name = """#, "name")]
#[case(r#"name = "Desk""#, "name")]
#[case(r#"name = "front desk""#, "name")]
#[case(&format!("name = \"{}\"", "d".repeat(65)), "name")]
#[case(r#"url = "desk:8090""#, "url")]
#[case(r#"url = "127.0.0.1:8090""#, "url")]
#[case(r#"url = "ftp://desk.example""#, "url")]
#[case(r#"url = "https://user:canary@desk.example""#, "url")]
#[case(r#"url = "https://canary@desk.example""#, "url")]
#[case(r#"url = "https://desk.example?key=canary""#, "url")]
#[case(r##"url = "https://desk.example#canary""##, "url")]
#[case(r#"api_key_env = """#, "api_key_env")]
#[case("timeout_s = 0.0", "timeout_s")]
#[case("timeout_s = -1.0", "timeout_s")]
#[case("timeout_s = 3601.0", "timeout_s")]
#[case("timeout_s = nan", "timeout_s")]
#[case("clock_tolerance_s = -1", "clock_tolerance_s")]
#[case("clock_tolerance_s = 3601", "clock_tolerance_s")]
#[case("clock_tolerance_s = nan", "clock_tolerance_s")]
#[case(r#"lab_framework = " ""#, "lab_framework")]
#[case("max_response_bytes = 0", "max_response_bytes")]
#[case("max_response_bytes = 67108865", "max_response_bytes")]
#[case(
    r#"agent_origins = ["https://a.example", "b.example"]"#,
    "agent_origins[1]"
)]
#[case(r#"agent_origins = ["https://a.example/ops"]"#, "agent_origins[0]")]
#[case(
    r#"agent_origins = ["https://u:canary@a.example"]"#,
    "agent_origins[0]"
)]
#[case(r#"agent_origins = ["*"]"#, "agent_origins[0]")]
fn invalid_provider_settings_are_rejected_by_name(#[case] setting: &str, #[case] field: &str) {
    let refused = load(&provider(setting)).unwrap_err().to_string();
    let named = format!("`oasis.providers[0].{field}`");
    assert!(refused.contains(&named), "{refused}");
    assert!(!refused.contains("canary"), "{refused}");
}

#[rstest]
#[case("[oasis]\nevaluator = \" \"\n", "`oasis.evaluator`")]
#[case("[oasis]\nlab_framework = \"\"\n", "`oasis.lab_framework`")]
#[case("[oasis]\nlab = \"x\"\n", "lab")]
#[case("[[oasis.providers]]\nname = \"desk\"\n", "url")]
fn incomplete_and_unknown_oasis_settings_are_rejected(#[case] text: &str, #[case] field: &str) {
    let refused = load(text).unwrap_err().to_string();
    assert!(refused.contains(field), "{refused}");
}

#[rstest]
#[case("token = \"canary\"", "token")]
#[case("retries = 3", "retries")]
#[case("allow_private = true", "allow_private")]
fn a_setting_that_does_not_exist_is_refused(#[case] setting: &str, #[case] field: &str) {
    let refused = load(&provider(setting)).unwrap_err().to_string();
    assert!(refused.contains(field), "{refused}");
    assert!(!refused.contains("canary"), "{refused}");
}

#[test]
fn two_providers_have_two_names() {
    let twice = format!("{}{}", provider(""), provider(""));
    let refused = load(&twice).unwrap_err().to_string();
    assert!(refused.contains("`oasis.providers[1].name`"), "{refused}");
}

#[test]
fn a_token_is_read_from_the_variable_that_is_named() {
    let config = load(&provider(r#"api_key_env = "DESK_TOKEN""#)).unwrap();
    let set = |name: &str| (name == "DESK_TOKEN").then(|| "canary-0".to_owned());
    let accesses = config.oasis.accesses(&set).unwrap();
    assert!(accesses[0].token.is_some());
    assert!(!format!("{accesses:?}").contains("canary"));
    for unset in [None, Some(String::new())] {
        let refused = config.oasis.accesses(&|_| unset.clone()).unwrap_err();
        let refused = refused.to_string();
        assert!(
            refused.contains("`oasis.providers[0].api_key_env`"),
            "{refused}"
        );
        assert!(refused.contains("DESK_TOKEN"), "{refused}");
    }
}

/// The host removes the token from responses: a short token would remove other words as well.
#[test]
fn a_token_that_is_too_short_is_refused() {
    let config = load(&provider(r#"api_key_env = "DESK_TOKEN""#)).unwrap();
    let refused = config.oasis.accesses(&|_| Some("canary7".to_owned()));
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("`oasis.providers[0].api_key_env`")
            && refused.contains("at least 8 bytes"),
        "{refused}"
    );
    assert!(!refused.contains("canary"), "{refused}");
}
