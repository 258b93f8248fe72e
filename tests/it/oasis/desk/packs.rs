//! Generated packs: a profile with its suite, and scripted agents.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};
use touchstone_oasis::rules::format;
use touchstone_oasis::rules::format::Package;
use touchstone_openwop::suite::AgentEvalSuite;

use super::agents::Script;

/// Files by name.
pub type Files = BTreeMap<String, Vec<u8>>;

/// A desk and its pack.
#[derive(Clone, Copy)]
pub struct Desk {
    pub profile: &'static str,
    pub version: &'static str,
    pub suite: &'static str,
    pub suite_version: &'static str,
    /// The pack, and the prefix of its agents' ids.
    pub pack: &'static str,
    pub tools: &'static [&'static str],
}

/// Our desk.
pub const FRONT: Desk = Desk {
    profile: "oasis-profile-front-desk",
    version: "1.0.0",
    suite: "vendor.touchstone.evals.front-desk",
    suite_version: "1.0.0",
    pack: "vendor.touchstone.front-desk",
    tools: &[
        "desk:booking-api",
        "desk:memo-board",
        "desk:round-runner",
        "desk:release-desk",
        "desk:key-box",
    ],
};

/// The reference's desk.
pub const RECORDS: Desk = Desk {
    profile: "oasis-profile-records-desk",
    version: "0.1.0",
    suite: "community.records-desk.evals.full",
    suite_version: "0.1.0",
    pack: "community.records-desk.profile",
    tools: &[
        "desk:records-api",
        "desk:document-store",
        "desk:job-runner",
        "desk:approval-desk",
        "desk:vault",
    ],
};

impl Desk {
    pub fn agent(&self, script: &Script) -> String {
        format!("{}.{}", self.pack, script.name)
    }

    fn manifest(&self, script: &Script) -> Value {
        json!({
            "name": self.pack, "version": "1.0.0", "description": "A desk.", "author": "Bench", "license": "0BSD",
            "engines": {"openwop": ">=1.0.0 <2.0.0"}, "runtime": {"language": "remote", "entry": "pack.json"},
            "agents": [{
                "agentId": self.agent(script), "persona": "Desk", "modelClass": "general",
                "systemPrompt": "Work.", "toolAllowlist": self.tools,
            }],
        })
    }

    fn archive(&self, script: &Script, mut files: Files) -> Vec<u8> {
        let reports = Map::from_iter([(self.agent(script), script.report())]);
        let mut put = |name: &str, document: Value| {
            files.insert(name.to_owned(), document.to_string().into_bytes());
        };
        put("pack.json", self.manifest(script));
        put("oasis/agents.json", Value::Object(reports));
        tarball(&files)
    }
}

/// Adds every file below a folder, by its path relative to the root.
pub fn gather(root: &Path, folder: &Path, files: &mut Files) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            gather(root, &path, files);
        } else {
            let below = path.strip_prefix(root).unwrap().to_str().unwrap();
            files.insert(below.to_owned(), std::fs::read(&path).unwrap());
        }
    }
}

fn tarball(files: &Files) -> Vec<u8> {
    let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(
        Vec::new(),
        flate2::Compression::default(),
    ));
    for (name, bytes) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        tar.append_data(&mut header, name, bytes.as_slice())
            .unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

/// Our pack from the repository, with a scripted agent.
pub fn front_desk(script: &Script) -> Vec<u8> {
    front_desk_with(script, |_| {})
}

/// The same with changed files.
pub fn front_desk_with(script: &Script, change: impl FnOnce(&mut Files)) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("packs/oasis-front-desk");
    let mut files = Files::new();
    for folder in ["oasis", "evals"] {
        gather(&root, &root.join(folder), &mut files);
    }
    change(&mut files);
    FRONT.archive(script, files)
}

/// Our pack as shipped.
pub fn shipped() -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("packs/oasis-front-desk");
    let mut files = Files::new();
    gather(&root, &root, &mut files);
    tarball(&files)
}

/// Its profile and its suite.
pub fn front_desk_rules() -> (Package, AgentEvalSuite) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("packs/oasis-front-desk");
    let mut files = Files::new();
    gather(&root.join("oasis"), &root.join("oasis"), &mut files);
    files.remove("agents.json");
    let suite = std::fs::read(root.join("evals/front-desk.json")).unwrap();
    let package = format::read(&files).unwrap_or_else(|problems| panic!("{problems:?}"));
    (package, serde_json::from_slice(&suite).unwrap())
}

/// The reference's profile as a pack. Its suite is renamed into the pack's namespace, as packs
/// require.
pub fn records_desk(root: &Path, script: &Script) -> Vec<u8> {
    let mut below = Files::new();
    gather(root, root, &mut below);
    let mut files: Files = below
        .into_iter()
        .filter(|(name, _)| !name.starts_with("agents/") && !name.starts_with("expected/"))
        .map(|(name, bytes)| (format!("oasis/{name}"), bytes))
        .collect();
    let suite = files.remove("oasis/eval-suite.json").unwrap();
    let mut suite: Value = serde_json::from_slice(&suite).unwrap();
    suite["suiteId"] = json!(RECORDS.suite);
    let suite = suite.to_string().into_bytes();
    files.insert("evals/records-desk.json".to_owned(), suite);
    RECORDS.archive(script, files)
}
