use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use rstest::rstest;
use serde_json::json;

use super::reader::{Archive, ArchiveFault, read};
use super::writer::{End, Unarchivable, Writer};
use super::*;
use touchstone_kit::keys::SecretKey;

fn contents() -> Contents {
    let contents = json!({
        "record": {"runId": "run_1", "tenant": "acme", "principal": "ann",
            "createdAt": "2026-01-31T23:30:00Z", "spec": {"workflowId": "w", "work": "journal"}},
        "additions": {"tags": ["nightly"]},
    });
    serde_json::from_value(contents).unwrap()
}

fn key() -> SecretKey {
    SecretKey::from_random([7; 32])
}

fn host() -> ArchivingHost {
    ArchivingHost {
        id: "host".to_owned(),
        name: "touchstone".to_owned(),
        version: "1".to_owned(),
    }
}

fn end(sequence: u64) -> End {
    End {
        status: "completed".to_owned(),
        ended_at: None,
        sequence,
    }
}

/// An archive with these events; its bytes are taken after each event if `often`.
fn archive(events: &[&str], often: bool) -> Vec<u8> {
    let mut writer = Writer::new(&contents()).unwrap();
    let mut file = Vec::new();
    for (sequence, event) in (1..).zip(events) {
        writer.event(sequence, event.as_bytes()).unwrap();
        if often {
            file.extend(writer.take());
        }
    }
    let rest = writer.finish(end(events.len() as u64), host(), &key());
    file.extend(rest.unwrap());
    file
}

fn opened(file: &[u8]) -> Result<(Archive, Vec<String>), ArchiveFault> {
    let mut events = Vec::new();
    let archive = read(file, Some(&key().public()), |sequence, body| {
        assert_eq!(sequence, events.len() as u64 + 1);
        events.push(String::from_utf8(body.to_vec()).unwrap());
    })?;
    Ok((archive, events))
}

#[test]
fn an_archive_is_read_as_it_was_written() {
    let events = ["{\"a\": 1}", "not JSON", "{\n}"];
    let (archive, read) = opened(&archive(&events, false)).unwrap();
    assert_eq!(archive.contents, contents());
    assert_eq!(archive.manifest.events, 3);
    assert_eq!(read, events, "as stored, also if it is not a document");
}

#[test]
fn the_same_run_gives_the_same_bytes_however_it_is_written() {
    let events = vec!["{\"a\":1}"; 1000];
    assert_eq!(archive(&events, true), archive(&events, false));
}

#[test]
fn the_name_has_the_tenant_and_the_date_in_utc() {
    let name = object_name(&contents().record).join("/");
    assert_eq!(name, "acme/2026/01/31/run_1.run.jsonl.gz");
}

#[test]
fn a_log_with_a_gap_is_not_archived() {
    let mut writer = Writer::new(&contents()).unwrap();
    writer.event(1, b"{}").unwrap();
    assert!(matches!(
        writer.event(3, b"{}"),
        Err(Unarchivable::Sequence { after: 1, found: 3 })
    ));
    let short = writer.finish(end(2), host(), &key());
    assert!(matches!(short, Err(Unarchivable::Incomplete { .. })));
}

fn compressed(lines: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    for line in lines {
        gzip.write_all(&line).unwrap();
    }
    gzip.finish().unwrap()
}

/// The first two lines.
fn head() -> Vec<u8> {
    let mut text = String::new();
    let file = archive(&[], false);
    GzDecoder::new(file.as_slice())
        .read_to_string(&mut text)
        .unwrap();
    let end = text.rfind("{\"payload").unwrap();
    text.truncate(end);
    text.into_bytes()
}

#[rstest]
#[case::one_line(1, 128 << 20, ArchiveFault::LineTooLong(3))]
#[case::many_lines(70, 1 << 20, ArchiveFault::Bomb)]
fn a_compression_bomb_is_refused_within_limits(
    #[case] lines: u64,
    #[case] spaces: usize,
    #[case] expected: ArchiveFault,
) {
    let bombs = (1..=lines).map(|sequence| {
        let mut line = format!("{{\"sequence\":{sequence},\"event\":{{").into_bytes();
        line.resize(line.len() + spaces, b' ');
        line.extend(b"}}\n");
        line
    });
    let file = compressed(std::iter::once(head()).chain(bombs));
    // Either limit may be reached first.
    let found = opened(&file).unwrap_err();
    assert!(
        found == expected || found == ArchiveFault::Bomb,
        "{found} instead of {expected}"
    );
}

#[test]
fn a_statement_of_another_kind_is_not_accepted() {
    let statement = json!({"_type": "https://in-toto.io/Statement/v1", "subject": [],
        "predicateType": "https://in-toto.io/attestation/test-result/v0.1", "predicate": {}});
    let envelope = touchstone_openwop::dsse::seal(statement.to_string().as_bytes(), &key());
    let mut last = serde_json::to_vec(&envelope).unwrap();
    last.push(b'\n');
    let file = compressed([head(), last].into_iter());
    assert_eq!(opened(&file), Err(ArchiveFault::OtherStatement));
}
