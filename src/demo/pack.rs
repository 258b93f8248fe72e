//! The demo's pack: the files of `packs/support-triage`, in two versions.

use serde_json::Value;

use touchstone_packs::rules::build::Files;

/// Agent id.
pub const AGENT: &str = "vendor.touchstone-demo.support-triage.default";
pub const SUITE: &str = "vendor.touchstone-demo.evals.support-triage@1.0.0";
/// The adversarial suite of the agent.
pub const ADVERSARIAL: &str = "vendor.touchstone-demo.evals.support-triage-adversarial@1.0.0";
/// Namespace of the demo's key.
pub const NAMESPACE: &str = "vendor.touchstone-demo.*";

const MANIFEST: &str = "pack.json";

/// The files as in the repository.
const FILES: &[(&str, &[u8])] = &[
    (
        MANIFEST,
        include_bytes!("../../packs/support-triage/pack.json"),
    ),
    (
        "README.md",
        include_bytes!("../../packs/support-triage/README.md"),
    ),
    (
        "prompts/triage.md",
        include_bytes!("../../packs/support-triage/prompts/triage.md"),
    ),
    (
        "schemas/ticket.schema.json",
        include_bytes!("../../packs/support-triage/schemas/ticket.schema.json"),
    ),
    (
        "schemas/decision.schema.json",
        include_bytes!("../../packs/support-triage/schemas/decision.schema.json"),
    ),
    (
        "evals/support-triage.json",
        include_bytes!("../../packs/support-triage/evals/support-triage.json"),
    ),
    (
        "evals/adversarial.json",
        include_bytes!("../../packs/support-triage/evals/adversarial.json"),
    ),
];

/// A version of the pack: the same agent for different model classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// 1.0.0, for a model of class `general`.
    Present,
    /// 1.1.0, for a model of class `classification`.
    Candidate,
}

impl Release {
    pub const fn version(self) -> &'static str {
        match self {
            Self::Present => "1.0.0",
            Self::Candidate => "1.1.0",
        }
    }

    pub const fn model_class(self) -> &'static str {
        match self {
            Self::Present => "general",
            Self::Candidate => "classification",
        }
    }

    /// The files of this version, ready for building and signing.
    pub fn files(self) -> Files {
        let mut files: Files = FILES
            .iter()
            .map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec()))
            .collect();
        if let Some(manifest) = files.get_mut(MANIFEST)
            && let Ok(mut document) = serde_json::from_slice::<Value>(manifest)
        {
            for (member, value) in [
                ("/version", self.version()),
                ("/agents/0/modelClass", self.model_class()),
            ] {
                if let Some(member) = document.pointer_mut(member) {
                    *member = value.into();
                }
            }
            *manifest = document.to_string().into_bytes();
        }
        files
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::kinds::KINDS;
    use touchstone_kit::keys::SecretKey;
    use touchstone_packs::rules::build::sign;
    use touchstone_packs::rules::verify::SigningMethod;
    use touchstone_runs::rules::eval::suite_rules::read_suite;

    #[rstest]
    fn both_demo_releases_are_valid_packs(
        #[values(Release::Present, Release::Candidate)] release: Release,
    ) {
        let key = SecretKey::from_random([7; 32]);
        let signed = sign(&release.files(), SigningMethod::Ed25519, &key, "demo").unwrap();
        assert_eq!(
            signed.id.to_string(),
            format!(
                "vendor.touchstone-demo.support-triage@{}",
                release.version()
            )
        );
    }

    #[test]
    fn every_file_of_the_folder_is_compiled_in() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("packs/support-triage");
        let mut found = Vec::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(&root).unwrap();
                    found.push(name.to_str().unwrap().to_owned());
                }
            }
        }
        found.sort();
        let files = Release::Present.files();
        assert_eq!(found, files.keys().cloned().collect::<Vec<_>>());
    }

    #[test]
    fn the_suite_is_valid_and_uses_tools_and_memory() {
        let files = Release::Present.files();
        let suite = read_suite(KINDS, &files["evals/support-triage.json"])
            .unwrap()
            .suite;
        assert_eq!(format!("{}@{}", suite.suite_id, suite.version), SUITE);
        assert_eq!(suite.tasks.len(), 20);
        let with = |has: fn(&touchstone_openwop::suite::Fixtures) -> bool| {
            suite
                .tasks
                .iter()
                .filter_map(|task| task.fixtures.as_ref())
                .any(has)
        };
        assert!(with(|fixtures| !fixtures.tool_responses.is_empty()));
        assert!(with(|fixtures| !fixtures.memory_seed.is_empty()));
    }
}
