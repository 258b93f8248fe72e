//! References of a manifest to files of its archive, each in one spelling.

use bytes::Bytes;

use crate::rules::archive::{Archive, path_segments};
use crate::rules::{Refusal, Stage};
use touchstone_kit::error::ErrorCode;

/// Finds the file that a member of `pack.json` refers to. Names are compared byte by byte, without
/// decoding or normalization.
///
/// # Errors
/// `pack_validation_failed` if the reference is not a plain relative path, `tarball_entry_missing`
/// if no file has exactly that name.
pub fn resolve<'a>(
    archive: &'a Archive,
    reference: &str,
    member: &str,
) -> Result<&'a Bytes, Refusal> {
    let refuse = |code, reason: String| {
        Refusal::new(code, Stage::References, reason).in_file(crate::rules::archive::MANIFEST)
    };
    if let Err(reason) = spelling(reference) {
        return Err(refuse(
            ErrorCode::PackValidationFailed,
            format!("{member}: {reason}"),
        ));
    }
    archive.files.get(reference).ok_or_else(|| {
        refuse(
            ErrorCode::TarballEntryMissing,
            format!("{member}: the archive has no file with exactly this name"),
        )
    })
}

fn spelling(reference: &str) -> Result<(), &'static str> {
    if reference.contains(['%', '?', '#', ':']) {
        return Err("must be a plain path inside the pack, without scheme, query, fragment or `%`");
    }
    path_segments(reference)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("prompts/agent.md", None)]
    #[case("Prompts/agent.md", Some(ErrorCode::TarballEntryMissing))]
    #[case("prompts", Some(ErrorCode::TarballEntryMissing))]
    #[case("", Some(ErrorCode::PackValidationFailed))]
    #[case("./prompts/agent.md", Some(ErrorCode::PackValidationFailed))]
    #[case("prompts/../prompts/agent.md", Some(ErrorCode::PackValidationFailed))]
    #[case("/etc/hostname", Some(ErrorCode::PackValidationFailed))]
    #[case("prompts//agent.md", Some(ErrorCode::PackValidationFailed))]
    #[case("prompts%2fagent.md", Some(ErrorCode::PackValidationFailed))]
    #[case("prompts\\agent.md", Some(ErrorCode::PackValidationFailed))]
    #[case("file:///etc/hostname", Some(ErrorCode::PackValidationFailed))]
    #[case("http://127.0.0.1:9/x", Some(ErrorCode::PackValidationFailed))]
    #[case("prompts/agent.md#x", Some(ErrorCode::PackValidationFailed))]
    #[case("prompts/agent.md?x", Some(ErrorCode::PackValidationFailed))]
    fn only_the_exact_path_of_a_file_resolves(
        #[case] reference: &str,
        #[case] refused: Option<ErrorCode>,
    ) {
        let mut archive = Archive::default();
        archive
            .files
            .insert("prompts/agent.md".into(), Bytes::from_static(b"p"));
        let outcome = resolve(&archive, reference, "/agents/0/systemPromptRef");
        assert_eq!(outcome.err().map(|refusal| refusal.code), refused);
    }
}
