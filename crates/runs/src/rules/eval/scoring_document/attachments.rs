//! The files of a pack that are sent with the input of a task.

use serde::{Deserialize, Serialize};

use touchstone_kit::headers::media_type::MediaType;

/// Files of one task.
pub const MAX_FILES: usize = 10;
/// The folder of files, so that an agent's prompts and suites are never sent by mistake.
const FOLDER: &str = "evals/files/";

/// A file of the pack, with the digest of its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AttachmentReference {
    /// Relative to the root of the pack.
    pub path: String,
    /// In lower-case hexadecimal, as `sha256sum` prints it.
    pub sha256: String,
    pub media_type: MediaType,
}

impl AttachmentReference {
    /// Its faults, each with the name of the member.
    pub fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        let is_name = |part: &str| !matches!(part, "" | "." | "..");
        let inside = self.path.strip_prefix(FOLDER);
        if !inside.is_some_and(|rest| rest.split('/').all(is_name)) {
            faults.push((
                "path",
                format!("must be a file below `{FOLDER}` of the pack"),
            ));
        }
        let is_digit = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        if self.sha256.len() != 64 || !self.sha256.bytes().all(is_digit) {
            faults.push((
                "sha256",
                "must be 64 lower-case hexadecimal digits, as `sha256sum` prints them".to_owned(),
            ));
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("evals/files/a.pdf", 64, &[])]
    #[case("evals/files/b/a.pdf", 64, &[])]
    #[case("evals/files/", 64, &["path"])]
    #[case("evals/files/../../prompts/agent.md", 64, &["path"])]
    #[case("/etc/passwd", 64, &["path"])]
    #[case("prompts/agent.md", 63, &["path", "sha256"])]
    fn only_files_below_the_folder_with_a_digest_can_be_attached(
        #[case] path: &str,
        #[case] digits: usize,
        #[case] members: &[&str],
    ) {
        let reference = AttachmentReference {
            path: path.to_owned(),
            sha256: "a".repeat(digits),
            media_type: MediaType::Pdf,
        };
        let found: Vec<&str> = reference
            .faults()
            .iter()
            .map(|(member, _)| *member)
            .collect();
        assert_eq!(found, members);
    }
}
