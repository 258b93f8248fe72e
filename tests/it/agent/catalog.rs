//! The endpoint of each model class, and invalid configurations.

use std::sync::Arc;

use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_agents::model::config::ModelConfig;
use touchstone_agents::model::{Judges, ModelCatalog, Setup};
use touchstone_agents::ports::model::Models;
use touchstone_host::ports::clock::Clock;
use touchstone_openwop::suite::ModelClass;

use super::support::free;

struct Epoch;

impl Clock for Epoch {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn uptime(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }
}

fn build(entries: Value) -> Result<ModelCatalog, String> {
    let entries: Vec<ModelConfig> = serde_json::from_value(entries).map_err(|e| e.to_string())?;
    let clock: Arc<dyn Clock> = Arc::new(Epoch);
    let environment = |name: &str| match name {
        "GOOD_KEY" => Some("sk-good".to_owned()),
        "BROKEN_KEY" => Some("canary\nkey".to_owned()),
        "EMPTY_KEY" => Some(String::new()),
        _ => None,
    };
    ModelCatalog::build(&entries, Judges::default(), setup(&environment, &clock))
        .map_err(|e| format!("{e} {e:?}"))
}

fn setup<'a>(
    environment: &'a dyn Fn(&str) -> Option<String>,
    clock: &'a Arc<dyn Clock>,
) -> Setup<'a> {
    Setup {
        environment,
        clock,
        prices: &[],
        embeddings: None,
        user: None,
    }
}

fn entry(class: &str, model: &str, base_url: &str) -> Value {
    json!({"class": class, "provider": "openai", "base_url": base_url, "model": model, "max_concurrency": 3})
}

#[test]
fn a_class_has_its_own_endpoint_or_the_default() {
    let catalog = build(json!([
        entry("*", "any", "http://127.0.0.1:9/v1"),
        entry("coding", "coder", "http://127.0.0.1:8/v1"),
    ]))
    .unwrap();
    let model = |class| catalog.resolve(class).unwrap().model.info().model.clone();
    assert_eq!(model(ModelClass::Coding), "coder");
    assert_eq!(model(ModelClass::Research), "any");
    let bare = build(json!([entry("coding", "coder", "http://127.0.0.1:8/v1")])).unwrap();
    assert!(bare.resolve(ModelClass::Research).is_none());
}

#[test]
fn classes_with_one_endpoint_share_its_permits_and_the_smallest_number_counts() {
    let mut second = entry("coding", "b", "http://127.0.0.1:9/v1/");
    second["max_concurrency"] = json!(2);
    let catalog = build(json!([
        entry("*", "a", "http://127.0.0.1:9/v1"),
        second,
        entry("research", "c", "http://127.0.0.1:8/v1"),
    ]))
    .unwrap();
    let binding = |class| catalog.resolve(class).unwrap();
    assert!(Arc::ptr_eq(
        &binding(ModelClass::General).permits,
        &binding(ModelClass::Coding).permits
    ));
    assert_eq!(free(&binding(ModelClass::General)), 2);
    assert_eq!(free(&binding(ModelClass::Research)), 3);
}

#[test]
fn the_documented_example_configuration_is_accepted() {
    let text = r#"
        [[models]]
        class="classification"
        provider="openai"
        base_url="http://127.0.0.1:9000/v1"
        model="m"
        api_key_env="GOOD_KEY"
        input_usd_per_mtok=0.15
        output_usd_per_mtok=0.60
        max_concurrency=64
        timeout_s=60
    "#;
    let source = config::File::from_str(text, config::FileFormat::Toml);
    let config = config::Config::builder()
        .add_source(source)
        .build()
        .unwrap();
    let entries: Vec<ModelConfig> = config.get("models").unwrap();
    let clock: Arc<dyn Clock> = Arc::new(Epoch);
    let environment = |_: &str| Some("k".to_owned());
    let catalog =
        ModelCatalog::build(&entries, Judges::default(), setup(&environment, &clock)).unwrap();
    let binding = catalog.resolve(ModelClass::Classification).unwrap();
    let info = binding.model.info();
    assert_eq!((info.max_concurrency, info.timeout.as_secs()), (64, 60));
    assert_eq!(
        info.price
            .as_ref()
            .unwrap()
            .tokens()
            .cost(1_000_000, 1_000_000)
            .usd(),
        0.75
    );
}

#[rstest]
#[case(json!({"api_key_env": "NO_KEY"}), "models[0].api_key_env names the environment variable NO_KEY, which is not set")]
#[case(json!({"api_key_env": "EMPTY_KEY"}), "which is not set")]
#[case(json!({"api_key_env": "BROKEN_KEY"}), "models[0].api_key_env names a variable whose value is not an API key")]
#[case(json!({"base_url": "ftp://127.0.0.1/"}), "models[0].base_url cannot be used: the URL is not usable: the scheme")]
#[case(json!({"base_url": "http://u:canary@127.0.0.1/"}), "models[0].base_url cannot be used: the URL contains credentials")]
#[case(json!({"base_url": "canary nonsense"}), "relative URL without a base")]
#[case(json!({"base_url": null}), "models[0].base_url is missing")]
#[case(json!({"model": null}), "models[0].model is missing")]
#[case(json!({"input_usd_per_mtok": -1}), "models[0].input_usd_per_mtok must be")]
#[case(json!({"max_concurrency": 0}), "models[0].max_concurrency must be at least 1")]
#[case(json!({"timeout_s": 0}), "models[0].timeout_s must be")]
#[case(json!({"max_attempts": 0}), "models[0].max_attempts must be")]
#[case(json!({"file": "x.json"}), "models[0].file applies only to provider \"scripted\"")]
#[case(json!({"api_key": "canary"}), "unknown field `api_key`")]
#[case(json!({"class": "poetry"}), "class must be `*` or one of reasoning, writing")]
#[case(json!({"provider": "scripted", "base_url": null}), "models[0].file is missing")]
#[case(json!({"provider": "scripted", "base_url": null, "file": "/no/such/file"}), "models[0].file /no/such/file could not be read")]
fn an_entry_that_cannot_be_used_is_named_with_its_field(
    #[case] change: Value,
    #[case] expected: &str,
) {
    let mut broken = entry("*", "m", "http://127.0.0.1:9/v1");
    for (name, value) in change.as_object().unwrap() {
        broken[name] = value.clone();
    }
    let error = build(json!([broken])).err().unwrap();
    assert!(error.contains(expected), "{error}");
    assert!(!error.contains("canary"), "{error}");
}

#[test]
fn two_entries_for_one_class_are_refused() {
    let entries = json!([
        entry("*", "a", "http://127.0.0.1:9/"),
        entry("*", "b", "http://127.0.0.1:8/")
    ]);
    assert!(build(entries).err().unwrap().contains("models[1].class"));
}

#[test]
fn a_script_is_pinned_by_its_path_and_its_content() {
    let dir = tempfile::tempdir().unwrap();
    let pin = |name: &str, said: &str| {
        let file = dir.path().join(name);
        let script = json!({"rules": [{"turns": [{"text": said}]}]});
        std::fs::write(&file, script.to_string()).unwrap();
        let entry = json!({"class": "*", "provider": "scripted", "file": file});
        let binding = build(json!([entry])).unwrap().resolve(ModelClass::General);
        binding.unwrap().endpoint.unwrap()
    };
    let first = pin("one.json", "a");
    assert_eq!(first.url, None);
    assert_eq!(pin("one.json", "a"), first);
    assert_ne!(pin("one.json", "b"), first, "the content was changed");
    assert_ne!(pin("two.json", "a"), first, "it is another file");
}

#[test]
fn the_slowest_pace_of_an_endpoint_counts() {
    let mut hasty = entry("*", "a", "http://127.0.0.1:9/v1");
    hasty["requests_per_minute"] = json!(6000);
    let mut slow = entry("coding", "b", "http://127.0.0.1:9/v1");
    slow["requests_per_minute"] = json!(60);
    let free_of = |catalog: ModelCatalog| free(&catalog.resolve(ModelClass::General).unwrap());
    assert_eq!(free_of(build(json!([hasty])).unwrap()), 3);
    assert_eq!(free_of(build(json!([hasty, slow])).unwrap()), 1);
}

#[rstest]
fn a_remote_agent_cannot_be_configured_as_judge(#[values("a2a", "openwop")] provider: &str) {
    let mut judge = entry("*", "m", "http://127.0.0.1:9/v1");
    judge["provider"] = provider.into();
    let judge: ModelConfig = serde_json::from_value(judge).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(Epoch);
    let judges = Judges {
        judge: Some(&judge),
        further: &[],
    };
    let error = ModelCatalog::build(&[], judges, setup(&|_| None, &clock))
        .err()
        .unwrap();
    assert!(
        error
            .to_string()
            .starts_with("judge.provider is a remote agent"),
        "{error}"
    );
}
