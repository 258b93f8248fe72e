//! Imports a file of lines into a host: the suite without its tasks, then one task a line. The file is
//! sent while it is read.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use axum::http::Method;
use serde_json::{Map, Value};

use super::Import;
use super::output::Output;
use crate::cli::suite::{Shown, scoring};
use touchstone_host::cli::client::transport::Call;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::http::lines::MEDIA_TYPE;
use touchstone_packs::rules::suite_stream::reader::MAX_HEADER_BYTES;

/// Whether the first line of a file is a suite without its tasks. A file that cannot be read is reported
/// by the readers of other formats. A pipe is not read, because its content could not be read again.
pub fn is_suite_of_lines(file: &Path) -> bool {
    if !file.metadata().is_ok_and(|it| it.is_file()) {
        return false;
    }
    let mut first = Vec::new();
    let read = File::open(file).and_then(|file| {
        BufReader::new(file.take(MAX_HEADER_BYTES as u64)).read_until(b'\n', &mut first)
    });
    let header: Option<Map<String, Value>> =
        read.ok().and_then(|_| serde_json::from_slice(&first).ok());
    header.is_some_and(|header| {
        let has = |member: &str| header.contains_key(member);
        has("suiteId") && has("modes") && !has("tasks")
    })
}

pub async fn import(
    context: &Context<'_>,
    output: &Output<'_>,
    arguments: &Import,
) -> Result<Exit, Failure> {
    let file = &arguments.file.file;
    let refused = |what: &str| {
        let message = format!("{what}: {} is a suite of lines", file.display());
        Err(Failure::usage(message).or_try("leave it out, or use a suite in one JSON document"))
    };
    if let Some(flag) = arguments.for_a_made_suite() {
        return refused(&format!("{flag} applies only to files of other tools"));
    }
    if arguments.out.is_some() {
        return refused("--out does not convert a suite");
    }
    if arguments.scoring.is_some() || scoring::beside(file).is_some() {
        return refused("scoring documents need the whole suite");
    }
    let session = context.write().await?;
    let call = Call::new(Method::POST, "/v1/host/touchstone/suites");
    let shown: Shown = session.client().call(call.file(MEDIA_TYPE, file)).await?;
    output.installed(&shown, &[]);
    Ok(Exit::Good)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::suite_of_lines(
        "{\"suiteId\":\"a.evals.b\",\"modes\":[\"golden\"]}\n{\"taskId\":\"a\"}\n",
        true
    )]
    #[case::document(
        "{\"suiteId\":\"a.evals.b\",\"modes\":[\"golden\"],\"tasks\":[]}",
        false
    )]
    #[case::indented_document("{\n  \"suiteId\": \"a.evals.b\"\n}", false)]
    #[case::samples("{\"input\":\"a\",\"ideal\":\"b\"}\n", false)]
    #[case::empty("", false)]
    fn suites_of_lines_are_recognized_by_their_first_line(
        #[case] text: &str,
        #[case] expected: bool,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("suite.jsonl");
        std::fs::write(&file, text).unwrap();
        assert_eq!(is_suite_of_lines(&file), expected);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_pipe_keeps_its_content() {
        use std::io::Write as _;
        use std::os::fd::AsRawFd as _;

        let (mut reader, mut writer) = std::io::pipe().unwrap();
        let text = "{\"suiteId\":\"a.evals.b\",\"modes\":[\"golden\"]}\n";
        writer.write_all(text.as_bytes()).unwrap();
        drop(writer);
        let path = format!("/dev/fd/{}", reader.as_raw_fd());
        assert!(!is_suite_of_lines(Path::new(&path)));
        let mut left = String::new();
        reader.read_to_string(&mut left).unwrap();
        assert_eq!(left, text);
    }
}
