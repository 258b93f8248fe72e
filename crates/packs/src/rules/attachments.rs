//! Files of a pack that a scoring document attaches to tasks, named by path and digest.

use std::collections::BTreeMap;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use touchstone_kit::headers::media_type::MediaType;
use touchstone_kit::hex::hex;
use touchstone_openwop::suite::SuiteFault;

/// Bytes of all attachments of one suite.
pub const MAX_TOTAL: usize = 16 * 1024 * 1024;

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    tasks: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    attachments: Vec<Reference>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reference {
    path: String,
    sha256: String,
    media_type: MediaType,
}

/// What keeps the attachments of a valid scoring document from being used. `file` finds a file of
/// the pack.
pub fn faults<'a>(canonical: &str, file: impl Fn(&str) -> Option<&'a [u8]>) -> Vec<SuiteFault> {
    let Ok(document) = serde_json::from_str::<Document>(canonical) else {
        return Vec::new();
    };
    let mut faults = Vec::new();
    let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
    for (task, entry) in &document.tasks {
        let task = task.replace('~', "~0").replace('/', "~1");
        for (n, reference) in entry.attachments.iter().enumerate() {
            let at = |member: &str| format!("/tasks/{task}/attachments/{n}/{member}");
            let Some(bytes) = file(&reference.path) else {
                let reason = format!("the pack has no file `{}`", reference.path);
                faults.push(SuiteFault::new(at("path"), reason));
                continue;
            };
            sizes.insert(&reference.path, bytes.len());
            let found = hex(&Sha256::digest(bytes));
            if found != reference.sha256 {
                let reason = format!("is not the digest of `{}`: {found}", reference.path);
                faults.push(SuiteFault::new(at("sha256"), reason));
            }
            if !reference.media_type.fits(bytes) {
                let reason = format!(
                    "is `{}`, but `{}` does not begin as such files do",
                    reference.media_type.as_str(),
                    reference.path
                );
                faults.push(SuiteFault::new(at("mediaType"), reason));
            }
        }
    }
    let total: usize = sizes.values().sum();
    if total > MAX_TOTAL {
        let reason =
            format!("has attachments of {total} bytes together; at most {MAX_TOTAL} are possible");
        faults.push(SuiteFault::new("", reason));
    }
    faults
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    const FILE: &[u8] = b"%PDF-1.7 invoice";

    fn found(attachment: &Value) -> Vec<String> {
        let document = json!({"tasks": {"a/b": {"attachments": [attachment]}}});
        let file = |name: &str| (name == "evals/files/invoice.pdf").then_some(FILE);
        let faults = faults(&document.to_string(), file);
        faults.iter().map(ToString::to_string).collect()
    }

    fn attachment(path: &str, sha256: &str, media_type: &str) -> Value {
        json!({"path": path, "sha256": sha256, "mediaType": media_type})
    }

    #[test]
    fn a_file_with_its_digest_and_type_has_no_faults() {
        let digest = hex(&Sha256::digest(FILE));
        let it = attachment("evals/files/invoice.pdf", &digest, "application/pdf");
        assert_eq!(found(&it), [""; 0]);
    }

    #[rstest]
    #[case::missing(
        "evals/files/other.pdf",
        None,
        "application/pdf",
        "/path: the pack has no file"
    )]
    #[case::changed(
        "evals/files/invoice.pdf",
        Some("00"),
        "application/pdf",
        "/sha256: is not the digest"
    )]
    #[case::other_type(
        "evals/files/invoice.pdf",
        None,
        "image/png",
        "/mediaType: is `image/png`"
    )]
    fn a_fault_names_the_member(
        #[case] path: &str,
        #[case] digest: Option<&str>,
        #[case] media_type: &str,
        #[case] fault: &str,
    ) {
        let own = hex(&Sha256::digest(FILE));
        let found = found(&attachment(path, digest.unwrap_or(&own), media_type));
        let start = format!("/tasks/a~1b/attachments/0{fault}");
        assert!(found[0].starts_with(&start), "{found:?}");
        assert_eq!(found.len(), 1);
    }
}
