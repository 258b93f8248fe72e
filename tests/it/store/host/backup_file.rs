//! The file of a backup: its format, and the files that are refused.

use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};
use touchstone_host::backup::manifest::{BackupFile, FORMAT, Manifest};
use touchstone_host::backup::{Unreadable, describe, read, write};

const ALL: [BackupFile; 3] = [
    BackupFile::HostKey,
    BackupFile::SigningKey,
    BackupFile::Database,
];

fn backup() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    for file in ALL {
        std::fs::write(folder.path().join(file.name()), file.name().repeat(1000)).unwrap();
    }
    let at = Timestamp::from_second(1_800_000_000).unwrap();
    let manifest = describe(folder.path(), &ALL, at, None).unwrap();
    let mut file = Vec::new();
    write(&manifest, folder.path(), &mut file).unwrap();
    file
}

#[test]
fn a_backup_is_unpacked_as_it_was_packed() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = read(backup().as_slice(), folder.path()).unwrap();
    assert_eq!(manifest.files.len(), 3);
    for file in ALL {
        let text = std::fs::read_to_string(folder.path().join(file.name())).unwrap();
        assert_eq!(text, file.name().repeat(1000));
    }
}

/// Every bit of content is covered by a digest, and every cut is noticed.
#[test]
fn a_changed_or_shortened_backup_is_refused() {
    let backup = backup();
    let content = |name: &str| {
        let start = &name.repeat(3)[..26];
        let place = backup.windows(26).position(|it| it == start.as_bytes());
        place.unwrap() + 700
    };
    let manifest = backup
        .windows(8)
        .position(|it| it == b"\"sha256\"")
        .unwrap()
        + 12;
    let mut places = ALL.map(|file| content(file.name())).to_vec();
    places.push(manifest);
    for place in places {
        let folder = tempfile::tempdir().unwrap();
        let mut changed = backup.clone();
        changed[place] ^= 1;
        let refused = read(changed.as_slice(), folder.path()).unwrap_err();
        assert!(matches!(refused, Unreadable::Damaged(_)), "{refused}");
    }
    for length in (0..backup.len() - 2048).step_by(1499) {
        let folder = tempfile::tempdir().unwrap();
        assert!(read(&backup[..length], folder.path()).is_err(), "{length}");
    }
}

#[test]
fn other_files_are_not_backups() {
    for file in [&b""[..], b"text", &[0; 4096]] {
        let folder = tempfile::tempdir().unwrap();
        let refused = read(file, folder.path()).unwrap_err();
        assert!(matches!(refused, Unreadable::NotABackup(_)), "{refused}");
    }
}

fn file(name: &str) -> Value {
    json!({"name": name, "bytes": 1, "sha256": "00"})
}

fn manifest(files: &[&str]) -> Value {
    let files: Vec<Value> = files.iter().map(|name| file(name)).collect();
    json!({
        "format": FORMAT, "version": 1, "madeBy": "touchstone/0.1.0",
        "madeAt": "2026-11-28T12:00:00Z", "files": files, "later": "ignored"
    })
}

fn parse(document: &Value) -> Result<Manifest, String> {
    Manifest::parse(document.to_string().as_bytes())
}

#[rstest]
#[case(&["touchstone.db"])]
#[case(&["secrets.pem", "attest.pem", "touchstone.db"])]
fn a_manifest_lists_the_database_last(#[case] files: &[&str]) {
    let manifest = parse(&manifest(files)).unwrap();
    let names: Vec<&str> = manifest.files.iter().map(|it| it.name.name()).collect();
    assert_eq!(names, files);
}

#[rstest]
#[case::nothing(manifest(&[]), "the database last")]
#[case::no_database(manifest(&["secrets.pem"]), "the database last")]
#[case::twice(manifest(&["touchstone.db", "touchstone.db"]), "once")]
#[case::other_order(manifest(&["touchstone.db", "secrets.pem"]), "the database last")]
#[case::path(manifest(&["../touchstone.db"]), "unknown variant")]
#[case::not_one(json!({"files": []}), "missing field `format`")]
#[case::newer(json!({"format": FORMAT, "version": 2}), "use a newer version")]
#[case::other(json!({"format": "tar", "version": 1}), "`format`")]
fn other_documents_are_refused(#[case] document: Value, #[case] names: &str) {
    let refused = parse(&document).unwrap_err();
    assert!(refused.contains(names), "{refused}");
}
