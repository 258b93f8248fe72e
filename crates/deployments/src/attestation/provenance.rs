//! The provenance of released artifacts: the source they were built from, and whether a file is one
//! of them.

use super::{Rejected, predicate};
use touchstone_kit::keys::PublicKey;
use touchstone_openwop::in_toto::{Envelope, PROVENANCE_TYPE, Provenance, ResourceDescriptor};

/// A provenance statement whose signature was verified.
#[derive(Clone, Debug, PartialEq)]
pub struct ReleaseProvenance {
    pub artifacts: Vec<ResourceDescriptor>,
    pub build: Provenance,
}

/// Reads a provenance statement that `key` has signed.
///
/// # Errors
/// [`Rejected`].
pub fn read(envelope: &Envelope, key: &PublicKey) -> Result<ReleaseProvenance, Rejected> {
    let (artifacts, build) = predicate(envelope, key, PROVENANCE_TYPE)?;
    Ok(ReleaseProvenance { artifacts, build })
}

impl ReleaseProvenance {
    /// The artifact with this content. Its name is that of the release; files may be renamed.
    pub fn artifact(&self, sha256: &str) -> Option<&ResourceDescriptor> {
        let mut artifacts = self.artifacts.iter();
        artifacts.find(|artifact| artifact.digest.sha256.as_deref() == Some(sha256))
    }

    /// The commit of the source.
    pub fn source_commit(&self) -> Option<&str> {
        let mut used = self.build.build_definition.resolved_dependencies.iter();
        used.find_map(|used| used.digest.git_commit.as_deref())
    }

    /// What the parameters of the build say against trusting it, for people.
    pub fn reservations(&self) -> Vec<&'static str> {
        let parameters = &self.build.build_definition.external_parameters;
        let is = |pointer: &str, value: serde_json::Value| {
            parameters.pointer(pointer).is_some_and(|it| *it == value)
        };
        let mut found = Vec::new();
        if is("/source/modified", true.into()) {
            found.push("the source had changes that are not in this commit");
        }
        if is("/program", "given".into()) {
            found.push("the program was not compiled by this build");
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use touchstone_kit::keys::SecretKey;
    use touchstone_openwop::dsse;

    fn statement(predicate_type: &str, parameters: &Value) -> Value {
        json!({
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": "a.tar", "digest": {"sha256": "00ff"}}],
            "predicateType": predicate_type,
            "predicate": {
                "buildDefinition": {
                    "buildType": "https://touchstone.invalid/build/dist/v1",
                    "externalParameters": parameters,
                    "resolvedDependencies": [
                        {"name": "Cargo.lock", "digest": {"sha256": "11"}},
                        {"name": "source", "digest": {"gitCommit": "abc"}},
                    ],
                },
                "runDetails": {"builder": {"id": "https://builder.example"}},
            },
        })
    }

    fn sealed(statement: &Value) -> Result<ReleaseProvenance, Rejected> {
        let key = SecretKey::from_random([7; 32]);
        let payload = serde_json::to_vec(statement).unwrap();
        read(&dsse::seal(&payload, &key), &key.public())
    }

    #[test]
    fn a_file_is_found_by_its_content_and_the_source_by_its_commit() {
        let provenance = sealed(&statement(PROVENANCE_TYPE, &json!({}))).unwrap();
        let found = provenance.artifact("00ff").unwrap();
        assert_eq!(found.name.as_deref(), Some("a.tar"));
        assert_eq!(provenance.artifact("00fe"), None);
        // A subject without a digest must not match.
        assert_eq!(provenance.artifact(""), None);
        assert_eq!(provenance.source_commit(), Some("abc"));
        assert!(provenance.reservations().is_empty());
    }

    #[rstest]
    #[case(json!({"source": {"modified": true}}), 1)]
    #[case(json!({"source": {"modified": true}, "program": "given"}), 2)]
    #[case(json!({"source": {"modified": false}, "program": "compiled"}), 0)]
    fn doubtful_builds_are_named(#[case] parameters: Value, #[case] expected: usize) {
        let provenance = sealed(&statement(PROVENANCE_TYPE, &parameters)).unwrap();
        assert_eq!(provenance.reservations().len(), expected);
    }

    #[test]
    fn statements_of_another_kind_and_unsigned_ones_are_rejected() {
        let other = statement("https://slsa.dev/provenance/v0.2", &json!({}));
        assert!(matches!(sealed(&other), Err(Rejected::OtherKind(_))));
        let key = SecretKey::from_random([7; 32]);
        let mut unsigned = dsse::seal(b"{}", &key);
        unsigned.signatures.clear();
        let refused = read(&unsigned, &key.public());
        assert!(matches!(refused, Err(Rejected::Unverified(_))));
    }
}
