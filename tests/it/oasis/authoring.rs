//! The guides for authors of profiles and providers, and the provider kit: the printed examples are
//! valid and complete, and the commands in them work.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use touchstone_oasis::rules::evidence::{
    AuditLog, Observation, ObservationRequest, ObservationType, Resource, ResourceState, StateDiff,
};
use touchstone_oasis::rules::format;
use touchstone_oasis::rules::format::Package;
use touchstone_oasis::rules::preflight::Preflight;
use touchstone_oasis::wire::provider;
use touchstone_oasis::wire::provider::{ProvisionResponse, StateSnapshotResponse};
use url::Url;

use super::desk::evaluation::{evaluate, host, request};
use super::desk::{agents, packs};
use crate::cli::home::{Done, Home};
use crate::store::Engine::Sqlite;

const PROFILE_GUIDE: &str = "docs/write-a-profile.md";
const PROVIDER_GUIDE: &str = "docs/write-a-provider.md";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn python() -> PathBuf {
    std::env::var_os("TOUCHSTONE_TEST_PYTHON").map_or_else(|| "python3".into(), PathBuf::from)
}

/// The files that a guide prints: a line that starts with the name in bold code, an empty line, a
/// fenced block.
fn printed(guide: &str) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(root().join(guide)).unwrap();
    let mut files = BTreeMap::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some((name, _)) = line
            .strip_prefix("**`")
            .and_then(|rest| rest.split_once("`**"))
        else {
            continue;
        };
        assert_eq!(lines.next(), Some(""), "{name}");
        assert!(lines.next().unwrap().starts_with("```"), "{name}");
        let block = lines.by_ref().take_while(|line| *line != "```");
        let content: String = block.map(|line| format!("{line}\n")).collect();
        assert!(files.insert(name.to_owned(), content).is_none(), "{name}");
    }
    assert!(!files.is_empty(), "{guide}");
    files
}

fn package() -> Package {
    let files: BTreeMap<String, String> = printed(PROFILE_GUIDE)
        .into_iter()
        .filter_map(|(name, content)| Some((name.strip_prefix("oasis/")?.to_owned(), content)))
        .collect();
    let package = format::read(&files).unwrap();
    let problems = package.problems();
    assert!(problems.is_empty(), "{problems:?}");
    package
}

fn document(files: &BTreeMap<String, String>, name: &str) -> Value {
    serde_json::from_str(&files[name]).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The running provider kit, which stops when dropped.
struct Kit {
    child: Child,
    url: Url,
}

impl Kit {
    fn start(profile: &str, environment: &str, more: &[&str]) -> Self {
        let script = root().join("kits/oasis-provider-python/oasis_provider.py");
        let mut child = Command::new(python())
            .arg("-B")
            .arg(script)
            .args(["--profile", profile, "--environment-type", environment])
            .args(["--port", "0"])
            .args(more)
            .env("KIT_TOKEN", "s3cret-token")
            .stdout(Stdio::piped())
            .spawn()
            .expect("the provider kit needs python3 (or set TOUCHSTONE_TEST_PYTHON)");
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ").unwrap();
        Self {
            url: url.parse().unwrap(),
            child,
        }
    }

    fn lending_desk(more: &[&str]) -> Self {
        let more = [&["--tier", "2"], more].concat();
        Self::start("oasis-profile-lending-desk@1.0.0", "lending-desk", &more)
    }
}

impl Drop for Kit {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder with the guide's pack, signed and installed as in the guide, and this provider.
fn installed(kit: &Kit) -> Home {
    let home = Home::empty();
    for (name, content) in printed(PROFILE_GUIDE) {
        let place = match name.as_str() {
            "agent.py" => home.path("agent.py"),
            file => home.path("lending-desk").join(file),
        };
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(place, content).unwrap();
    }
    let settings = std::fs::read_to_string(home.config()).unwrap();
    let provider = format!(
        "\n[[oasis.providers]]\nname = \"kit\"\nurl = \"{}\"\n",
        kit.url
    );
    std::fs::write(home.config(), settings + &provider).unwrap();
    for command in [
        "pack lint lending-desk",
        "pack keygen --out key.pem --key-id local-1",
        "pack sign lending-desk --key key.pem --key-id local-1 --out lending-desk.tgz",
        "pack install lending-desk.tgz --trust-key local-1=key.pub",
    ] {
        let guide = std::fs::read_to_string(root().join(PROFILE_GUIDE)).unwrap();
        assert!(guide.contains(&format!("touchstone {command}\n")));
        let arguments: Vec<&str> = command.split(' ').collect();
        let done = home.run(&arguments);
        assert_eq!(done.code, 0, "{command}: {}{}", done.stdout, done.stderr);
    }
    home
}

#[test]
fn the_profile_of_the_guide_is_valid() {
    let package = package();
    assert_eq!(package.scenarios.len(), 7);
    assert!(package.unlisted.is_empty());
}

#[test]
fn the_guide_to_profiles_names_every_field_that_is_read() {
    let guide = std::fs::read_to_string(root().join(PROFILE_GUIDE)).unwrap();
    let mut files = packs::Files::new();
    let folder = root().join("crates/oasis/src/rules/format");
    packs::gather(&folder, &folder, &mut files);
    let mut fields = BTreeSet::new();
    for (name, bytes) in files.iter().filter(|(name, _)| !name.contains("test")) {
        let source = std::str::from_utf8(bytes).unwrap();
        assert!(name.ends_with(".rs"), "{name}");
        let calls = [
            "text(", "get(", "need(", "flag(", "table(", "tables(", "texts(", "list(", "word(",
            "table, ", "entry, ",
        ];
        for call in calls {
            let quoted = format!("{call}\"");
            let found = source.split(quoted.as_str()).skip(1);
            fields.extend(found.filter_map(|rest| rest.split_once('"').map(|(field, _)| field)));
            // Formatted over two lines.
            let found = source.split(call).skip(1);
            let indented =
                found.filter_map(|rest| rest.strip_prefix('\n')?.trim_start().strip_prefix('"'));
            fields.extend(indented.filter_map(|rest| rest.split_once('"').map(|(field, _)| field)));
        }
    }
    assert!(fields.len() > 80, "{fields:?}");
    let missing: Vec<_> = fields
        .into_iter()
        .filter(|field| !field.is_empty() && !guide.contains(*field))
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn the_messages_in_the_provider_guide_are_accepted() {
    let files = printed(PROVIDER_GUIDE);
    let package = package();
    let declared = document(&files, "conformance.json");
    let preflight = Preflight::of(&package.profile, &package.requirements, 2, &declared);
    assert!(preflight.gaps.is_empty(), "{:?}", preflight.gaps);
    let read: Result<ProvisionResponse, _> =
        provider::read(document(&files, "provision-response.json"));
    read.unwrap();
    let read: Result<StateSnapshotResponse, _> =
        provider::read(document(&files, "state-snapshot-response.json"));
    read.unwrap();
    let request = ObservationRequest::whole(ObservationType::AuditLog);
    let answer = document(&files, "observe-response.json");
    let observed = Observation::accept(request, "env-1", &answer).unwrap();
    let log = AuditLog::read(&observed.data, Some("agent:env-1")).unwrap();
    assert_eq!(log.of_agent().count(), 1);
    let loan = Resource::parse("loan/L-15", Some("east".to_owned())).unwrap();
    let state = ResourceState::read(&document(&files, "resource-state.json"), &loan).unwrap();
    let diff = StateDiff::read(&document(&files, "state-diff.json")).unwrap();
    assert_eq!(diff.after(&loan), state.0.as_ref());
    assert_eq!(diff.changes().count(), 2);
    // Printed requests are JSON objects; `provider_messages` tests what the host sends.
    for name in [
        "provision-request.json",
        "inject-state-request.json",
        "operation-request.json",
    ] {
        assert!(document(&files, name).is_object(), "{name}");
    }
}

#[test]
fn the_profile_of_the_guide_is_evaluated_with_the_provider_kit() {
    let kit = Kit::lending_desk(&[]);
    let home = installed(&kit);
    let asked = home.run(&["oasis", "preflight", "--tier", "1"]);
    assert_eq!(asked.code, 0, "{}{}", asked.stdout, asked.stderr);
    for tier in ["1", "2"] {
        let agent = format!("'{}' -B agent.py", python().display());
        let done = home.run(&[
            "oasis",
            "run",
            "vendor.acme.evals.lending-desk@1.0.0",
            "vendor.acme.lending-desk.clerk",
            "--tier",
            tier,
            "--evaluator",
            "Acme",
            "--agent-command",
            &agent,
            "--report",
            "report.html",
        ]);
        assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
        assert!(done.stdout.contains("PASS"), "{}", done.stdout);
        assert!(home.path("report.html").exists());
    }
}

#[test]
fn the_kit_takes_calls_only_with_the_evaluators_token() {
    let kit = Kit::lending_desk(&["--token-env", "KIT_TOKEN"]);
    let preflight = ["oasis", "preflight", "--tier", "1"];
    let home = installed(&kit);
    let refused = home.run(&preflight);
    assert_eq!(refused.code, 1, "{}{}", refused.stdout, refused.stderr);
    assert!(refused.stdout.contains("401"), "{}", refused.stdout);
    let settings = std::fs::read_to_string(home.config()).unwrap();
    std::fs::write(home.config(), settings + "api_key_env = \"KIT_TOKEN\"\n").unwrap();
    let mut command = home.touchstone();
    command.args(preflight).env("KIT_TOKEN", "s3cret-token");
    assert_eq!(Done::of(&mut command).code, 0);
}

/// The kit does not know the front desk, and still provides its scenarios: injected state,
/// containment, deviation.
#[tokio::test(flavor = "multi_thread")]
async fn the_kit_stages_the_front_desk() {
    let kit = Kit::start(
        "oasis-profile-front-desk@1.0.0",
        "front-desk",
        &["--tier", "2"],
    );
    let script = agents::Script::ours("careful");
    let database = Sqlite.database().await.unwrap();
    let actor = agents::Actor::of(&script);
    let host = host(&database, actor, kit.url.clone(), None).await;
    host.install_pack(&packs::front_desk(&script)).await;
    host.work();
    let ended = evaluate(&host, &request(&packs::FRONT, &script, 2)).await;
    let verdict = ended.verdict(&host).await;
    assert_eq!(verdict["verdict"]["safety"], "PASS", "{verdict:#}");
    let provider = &verdict["verdict"]["metadata"]["environment"];
    assert_eq!(provider["provider"], "python-kit");
    assert_eq!(ended.events("touchstone.oasis.scenario").len(), 16);
}

/// An agent that violates a scenario fails here as well.
#[tokio::test(flavor = "multi_thread")]
async fn the_kit_shows_what_a_careless_agent_did() {
    let kit = Kit::start(
        "oasis-profile-front-desk@1.0.0",
        "front-desk",
        &["--tier", "2"],
    );
    let script = agents::Script::ours("reckless");
    let database = Sqlite.database().await.unwrap();
    let actor = agents::Actor::of(&script);
    let host = host(&database, actor, kit.url.clone(), None).await;
    host.install_pack(&packs::front_desk(&script)).await;
    host.work();
    let ended = evaluate(&host, &request(&packs::FRONT, &script, 2)).await;
    let verdict = ended.verdict(&host).await;
    assert_eq!(verdict["verdict"]["safety"], "FAIL", "{verdict:#}");
}
