//! The reference corpus of hostile packs and the slice of the public registry, where they are
//! available.
//!
//! They do not ship with this repository; without them, these tests print that they were skipped.
//! The corpus in `corpus.rs` always runs.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use touchstone_packs::registry::directory::DirectoryRegistry;
use touchstone_packs::rules::name::PackId;
use touchstone_packs::rules::verify::{Policy, Trust};
use touchstone_packs::rules::{Refusal, lockfile};
use touchstone_packs::service::download::PackRequest;
use touchstone_packs::service::packs::Candidate;
use touchstone_runs::rules::eval::suite_rules::SuiteRef;

use crate::support::packs::fetch_and_verify;
use crate::support::reference::shared;

fn trusting() -> Trust {
    Trust {
        registry_keys: true,
        ..Trust::default()
    }
}

async fn judge(
    registry: &Path,
    name: &str,
    version: &str,
    lock: Option<&Path>,
) -> Result<Candidate, Refusal> {
    let source = DirectoryRegistry::new(registry);
    let lock = lock
        .map(|path| std::fs::read(path).unwrap())
        .map(|bytes| lockfile::parse(&bytes))
        .transpose()?;
    let request = PackRequest::Exact(PackId::new(name, version).unwrap());
    fetch_and_verify(
        &source,
        &request,
        &trusting(),
        &Policy::default(),
        lock.as_ref(),
    )
    .await
}

#[tokio::test]
async fn the_reference_corpus_is_judged_as_its_manifest_says() {
    let Some(script) = shared("packs/make_bad_packs.py") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("python3")
        .arg(&script)
        .arg(folder.path())
        .output();
    let Some(made) = made.ok().filter(|made| made.status.success()) else {
        eprintln!("SKIPPED: the reference corpus needs python3 with the package `cryptography`");
        return;
    };
    println!("{}", String::from_utf8_lossy(&made.stdout));
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("manifest.json")).unwrap())
            .unwrap();
    let cases = manifest["cases"].as_array().unwrap();
    let mut wrong = Vec::new();
    for case in cases {
        let id = case["id"].as_str().unwrap();
        let pack = |member: &str| case["pack"][member].as_str().unwrap();
        let lock = case["files"]
            .get("lockfile")
            .map(|path| folder.path().join(path.as_str().unwrap()));
        let started = Instant::now();
        let outcome = judge(
            &folder.path().join("registry"),
            pack("name"),
            pack("version"),
            lock.as_deref(),
        )
        .await;
        if started.elapsed() > Duration::from_secs(5) {
            wrong.push(format!("{id}: took {:?}", started.elapsed()));
        }
        if let Some(complaint) = differs(case, &outcome) {
            wrong.push(format!("{id}: {complaint}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} are wrong:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
    assert_eq!(cases.len(), 196);

    for reference in manifest["evalSuiteRefs"].as_array().unwrap() {
        let sound = reference["ref"]
            .as_str()
            .unwrap()
            .parse::<SuiteRef>()
            .is_ok();
        assert_eq!(sound, reference["expect"] == "accept", "{reference}");
    }
}

/// The difference between the outcome of a case and its expectation, if any.
fn differs(case: &Value, outcome: &Result<Candidate, Refusal>) -> Option<String> {
    let expect = case["expect"].as_str().unwrap();
    let refusal = match outcome {
        Ok(candidate) => {
            if expect == "reject" {
                return Some("accepted".to_owned());
            }
            return promise(case, candidate);
        }
        Err(refusal) => refusal,
    };
    let code = refusal.code.as_str();
    // The corpus has no class for this code; its reason for the case names it.
    let named = case["why"] == code;
    let allowed = case["codes"]
        .as_array()
        .is_some_and(|codes| codes.iter().any(|c| c == code));
    (expect == "accept" || !(allowed || named)).then(|| format!("refused: {refusal}"))
}

/// Checks the additional properties that an accepted case promises.
fn promise(case: &Value, candidate: &Candidate) -> Option<String> {
    let pack = &candidate.pack;
    let kept = match case["id"].as_str().unwrap() {
        "ok-deprecated" => pack
            .warnings
            .iter()
            .any(|w| w.contains("use 2.0.0") && w.contains("superseded by 2.0.0")),
        "ok-optional-peer" => pack.contents.degraded == ["host.corpusTeleport"],
        "served-drift" => pack.contents.agents[0].tools().is_empty(),
        "ok-unreferenced-suite" => pack.contents.suites.len() == 2,
        "ok-two-agents" => pack.contents.agents.len() == 2 && pack.contents.suites.len() == 1,
        "ok-tarball-signature" => {
            serde_json::to_value(&pack.signature).unwrap()["coverage"] == "tarball"
        }
        "ok-plain" => serde_json::to_value(&pack.signature).unwrap()["coverage"] == "manifest",
        _ => true,
    };
    (!kept).then(|| format!("breaks its promise {}", case["must"]))
}

#[tokio::test]
async fn the_registry_slice_loads() {
    let Some(registry) = shared("openwop/registry") else {
        return;
    };
    let mut verdicts = Vec::new();
    for pack in std::fs::read_dir(registry.join("v1/packs")).unwrap() {
        let name = pack.unwrap().file_name().into_string().unwrap();
        let index = std::fs::read(registry.join(format!("v1/packs/{name}/index.json"))).unwrap();
        let index: Value = serde_json::from_slice(&index).unwrap();
        for version in index["versions"].as_array().unwrap() {
            let version = version["version"].as_str().unwrap();
            let outcome = judge(&registry, &name, version, None).await;
            let verdict = outcome.err().map(|r| (r.code.as_str(), r.file));
            verdicts.push((format!("{name}@{version}"), verdict));
        }
    }
    verdicts.sort();
    assert_eq!(verdicts.len(), 21);
    let refused: Vec<_> = verdicts
        .into_iter()
        .filter(|(_, verdict)| verdict.is_some())
        .collect();
    let yanked = Some(("pack_version_not_found", None));
    let dangling = Some(("tarball_entry_missing", Some("pack.json".to_owned())));
    assert_eq!(
        refused,
        [
            ("core.openwop.agent-examples@1.0.0".to_owned(), dangling),
            ("core.openwop.agents.react@1.0.0".to_owned(), yanked.clone()),
            ("core.openwop.agents.supervisor@1.0.0".to_owned(), yanked),
        ]
    );
}

#[tokio::test]
async fn a_range_of_the_registry_slice_gives_the_highest_version_not_yanked() {
    let Some(registry) = shared("openwop/registry") else {
        return;
    };
    let source = DirectoryRegistry::new(registry);
    for (request, version) in [
        ("core.openwop.agents.react", Some("1.0.3")),
        ("core.openwop.agents.react@<=1.0.1", Some("1.0.1")),
        ("core.openwop.agents.react@1.0.0 || >=2", None),
    ] {
        let request: PackRequest = request.parse().unwrap();
        let outcome =
            fetch_and_verify(&source, &request, &trusting(), &Policy::default(), None).await;
        let found = outcome
            .ok()
            .map(|candidate| candidate.pack.id.version.to_string());
        assert_eq!(found.as_deref(), version, "{request:?}");
    }
}

/// Peak resident memory of this process, in KiB. `./test` runs the test in a process of its own.
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

#[tokio::test]
async fn ten_gigabytes_behind_ten_megabytes_are_refused_at_once() {
    let Some(script) = shared("packs/make_bad_packs.py") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("python3")
        .arg(&script)
        .arg(folder.path())
        .args(["--only", "bomb-10gb,bomb-1e6-entries"])
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        eprintln!("SKIPPED: the reference corpus needs python3 with the package `cryptography`");
        return;
    }
    for bomb in ["bomb-10gb", "bomb-1e6-entries"] {
        let name = format!("community.corpus.{bomb}");
        let (before, started) = (peak_kib(), Instant::now());
        let outcome = judge(&folder.path().join("registry"), &name, "1.0.0", None).await;
        let took = started.elapsed();
        assert!(outcome.is_err());
        let grown = peak_kib().zip(before).map(|(after, before)| after - before);
        println!("{bomb}: {took:?}, {grown:?} KiB more at the peak");
        assert!(took < Duration::from_secs(5), "{bomb}: {took:?}");
        assert!(
            grown.is_none_or(|kib| kib < 64 * 1024),
            "{bomb}: {grown:?} KiB"
        );
    }
}
