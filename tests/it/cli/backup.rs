//! `touchstone backup` and `touchstone restore`.

use std::path::Path;

use rstest::rstest;
use serde_json::{Value, json};
use sqlx::{Connection as _, SqliteConnection};
use touchstone_host::backup::manifest::BackupFile;
use touchstone_host::backup::{describe, write};

use super::home::{Done, Home, right_answers};

/// A home with a run that has ended and its backup.
fn backed_up(more: &[&str]) -> (Home, Value) {
    let home = Home::with_pack();
    home.model(&json!(right_answers()));
    let done = home.eval(&[]);
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    let made = home.run(&[&["--json", "backup", "b.tar"], more].concat());
    assert_eq!(made.code, 0, "{}{}", made.stdout, made.stderr);
    (home, made.document())
}

fn at(home: &Home, data: &str, arguments: &[&str]) -> Done {
    home.run(&[arguments, &["--data", data]].concat())
}

fn score(home: &Home, data: &str) -> Value {
    at(home, data, &["--json", "run", "show", "latest"]).document()["summary"]["aggregateScore"]
        .clone()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn a_backup_with_keys_is_restored_as_it_was() {
    let (home, made) = backed_up(&["--with-keys"]);
    let files = made["manifest"]["files"].as_array().unwrap();
    let listed: Vec<&str> = files
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(listed.first(), Some(&"secrets.pem"));
    assert_eq!(listed.last(), Some(&"touchstone.db"));
    assert_eq!(made["notIncluded"], json!([]));
    let left = names(&home.path(""));
    assert!(
        left.iter().all(|it| !it.starts_with(".touchstone-backup")),
        "{left:?}"
    );

    let restored = at(&home, "copy", &["--json", "restore", "b.tar"]);
    assert_eq!(restored.code, 0, "{}{}", restored.stdout, restored.stderr);
    let restored = restored.document();
    assert_eq!(restored["manifest"], made["manifest"]);
    assert_eq!(
        (&restored["held"], &restored["hostKeyMissing"]),
        (&json!([]), &json!(false))
    );
    let left = names(&home.path("copy"));
    assert!(left.iter().all(|it| !it.starts_with('.')), "{left:?}");
    assert_eq!(score(&home, "copy"), score(&home, ".touchstone"));
    assert!(score(&home, "copy").is_number());
    let verified = at(&home, "copy", &["audit", "verify"]);
    assert_eq!(verified.code, 0, "{}", verified.stdout);
    let audit = at(&home, "copy", &["audit", "list"]).stdout;
    assert!(
        audit.contains("backup:restore") && audit.contains("made at"),
        "{audit}"
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        for name in ["b.tar", "copy/touchstone.db", "copy/secrets.pem"] {
            let mode = std::fs::metadata(home.path(name))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o077, 0, "{name}");
        }
    }
}

#[test]
fn keys_that_are_not_in_the_file_are_named_and_asked_for() {
    let (home, made) = backed_up(&[]);
    assert_eq!(made["manifest"]["files"].as_array().unwrap().len(), 1);
    assert_eq!(made["notIncluded"][0]["name"], "secrets.pem");
    let restored = at(&home, "copy", &["restore", "b.tar"]);
    assert_eq!(restored.code, 0, "{}", restored.stderr);
    let id = made["manifest"]["hostKeyId"].as_str().unwrap();
    assert!(restored.stderr.contains(id), "{}", restored.stderr);
    // No command creates another key, which would hide that the right one is missing.
    for command in [
        &["run", "list"][..],
        &["key", "list"],
        &["key", "rotate-host"],
    ] {
        let refused = at(&home, "copy", &[&["--json"], command].concat());
        assert_eq!(refused.code, 2, "{command:?}: {}", refused.stdout);
        let error = refused.document()["error"].clone();
        assert_eq!(error["code"], "host_key", "{error}");
        for member in ["message", "remedy"] {
            let text = error[member].as_str().unwrap();
            assert!(text.contains("copy/secrets.pem"), "{text}");
        }
    }
    assert_eq!(at(&home, "copy", &["restore", "--take-over"]).code, 0);
    assert!(!home.path("copy/secrets.pem").exists());
    let examined = at(&home, "copy", &["doctor"]);
    assert_eq!(examined.code, 1, "{}", examined.stdout);
    assert!(
        examined.stdout.contains("secrets.pem is missing"),
        "{}",
        examined.stdout
    );
    std::fs::copy(
        home.path(".touchstone/secrets.pem"),
        home.path("copy/secrets.pem"),
    )
    .unwrap();
    assert_eq!(score(&home, "copy"), score(&home, ".touchstone"));
}

#[test]
fn a_backup_replaces_no_file_and_a_restore_no_data() {
    let (home, _) = backed_up(&[]);
    let before = std::fs::read(home.path("b.tar")).unwrap();
    let refused = home.run(&["--json", "backup", "b.tar"]);
    assert_eq!(refused.document()["error"]["code"], "file_exists");
    assert_eq!(std::fs::read(home.path("b.tar")).unwrap(), before);
    let refused = home.run(&["--json", "restore", "b.tar"]);
    assert_eq!(
        (refused.code, &refused.document()["error"]["code"]),
        (2, &json!("folder_not_empty"))
    );
    let refused = home.run(&["--json", "backup", "missing/b.tar"]);
    assert_eq!(refused.document()["error"]["code"], "no_such_folder");
    let refused = home.run(&["--json", "backup", "-"]);
    assert_eq!(refused.document()["error"]["code"], "usage");
    assert!(!home.path("-").exists());
}

/// A fault of the database, made in the home.
#[derive(Clone, Copy)]
enum Fault {
    Missing,
    Folder,
    DataIsAFile,
    NotADatabase,
    DamagedPages,
}

impl Fault {
    /// Makes it; returns the path that the message must name.
    fn make(self, home: &Home) -> std::path::PathBuf {
        let database = home.path(".touchstone/touchstone.db");
        // A restored database has no log that hides damage.
        for arguments in [
            &["backup", "whole.tar", "--with-keys"][..],
            &["restore", "whole.tar", "--data", "copy"],
        ] {
            let done = home.run(arguments);
            assert_eq!(done.code, 0, "{}", done.stderr);
        }
        let mut bytes = std::fs::read(home.path("copy/touchstone.db")).unwrap();
        for name in ["touchstone.db-wal", "touchstone.db-shm"] {
            let _ = std::fs::remove_file(home.path(".touchstone").join(name));
        }
        std::fs::remove_file(&database).unwrap();
        match self {
            Self::Missing => {}
            Self::Folder => std::fs::create_dir(&database).unwrap(),
            Self::DataIsAFile => {
                std::fs::remove_dir_all(home.path(".touchstone")).unwrap();
                std::fs::write(home.path(".touchstone"), "x").unwrap();
            }
            Self::NotADatabase => std::fs::write(&database, "x".repeat(8192)).unwrap(),
            // The first page holds the schema, which is still read.
            Self::DamagedPages => {
                bytes[4096..].fill(0xa5);
                std::fs::write(&database, bytes).unwrap();
            }
        }
        database
    }
}

#[rstest]
#[case::missing(Fault::Missing, 2, "no_database", "--data")]
#[case::folder(Fault::Folder, 2, "unreadable", "--data")]
#[case::data_is_a_file(Fault::DataIsAFile, 2, "unreadable", "--data")]
#[case::not_a_database(Fault::NotADatabase, 3, "database_damaged", "restore")]
#[case::damaged_pages(Fault::DamagedPages, 3, "database_damaged", "restore")]
fn a_database_that_cannot_be_copied_is_named_with_a_remedy(
    #[case] fault: Fault,
    #[case] exit: i32,
    #[case] code: &str,
    #[case] remedy: &str,
) {
    let home = Home::with_pack();
    let database = fault.make(&home);
    let refused = home.run(&["--json", "backup", "b.tar"]);
    let error = refused.document()["error"].clone();
    assert_eq!(
        (refused.code, &error["code"]),
        (exit, &json!(code)),
        "{error}"
    );
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("touchstone.db"),
        "{message} does not name {database:?}"
    );
    assert!(
        error["remedy"].as_str().unwrap().contains(remedy),
        "{error}"
    );
    let left = names(&home.path(""));
    let is_left = |it: &String| it == "b.tar" || it.starts_with(".touchstone-backup");
    assert!(!left.iter().any(is_left), "{left:?}");
}

/// A file size limit fails writes as a full disk does, also for the superuser.
#[cfg(target_os = "linux")]
#[test]
fn a_copy_that_cannot_be_written_is_named_with_a_remedy() {
    let home = Home::with_pack();
    let program = home.touchstone();
    let mut limited = assert_cmd::Command::new("sh");
    // Without the trap, the first write beyond the limit would end the process.
    limited.args(["-c", r#"trap "" XFSZ; ulimit -f 128; exec "$0" "$@""#]);
    limited.arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited.current_dir(home.path(""));
    let refused = Done::of(limited.args(["--json", "backup", "b.tar"]));
    let error = refused.document()["error"].clone();
    assert_eq!(
        (refused.code, &error["code"]),
        (3, &json!("file_not_written")),
        "{error}"
    );
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(".touchstone-backup"), "{message}");
    assert!(
        error["remedy"].as_str().unwrap().contains("free"),
        "{error}"
    );
}

/// The same backup with a database that was changed before the digests were computed.
fn forged(home: &Home, sql: &'static str) {
    let folder = home.path("forged");
    let database = folder.join("touchstone.db");
    std::fs::create_dir(&folder).unwrap();
    let unpacked = std::process::Command::new("tar")
        .args(["-xf", "b.tar", "-C", "forged"])
        .current_dir(home.path(""))
        .status();
    assert!(unpacked.unwrap().success(), "tar reads a backup");
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let location = format!("sqlite:{}", database.display());
        let mut connection = SqliteConnection::connect(&location).await.unwrap();
        sqlx::query(sql).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    });
    let at = "2026-11-28T12:00:00Z".parse().unwrap();
    let manifest = describe(&folder, &[BackupFile::Database], at, None).unwrap();
    let file = std::fs::File::create(home.path("b.tar")).unwrap();
    write(&manifest, &folder, file).unwrap();
}

#[rstest]
#[case::newer(
    "INSERT INTO schema_migration VALUES ('host', 99, '', 0, FALSE)",
    "newer version"
)]
#[case::other_build(
    "UPDATE schema_migration SET checksum = 'x' WHERE feature = 'runs'",
    "different build"
)]
#[case::other_program("DROP TABLE schema_migration", "already exists")]
fn a_backup_of_another_program_is_refused(#[case] sql: &'static str, #[case] names_it: &str) {
    let (home, _) = backed_up(&[]);
    forged(&home, sql);
    let refused = at(&home, "copy", &["restore", "b.tar"]);
    assert_ne!(refused.code, 0, "{}", refused.stdout);
    assert!(refused.stderr.contains(names_it), "{}", refused.stderr);
    assert_eq!(names(&home.path("copy")), Vec::<String>::new());
}

#[test]
fn a_damaged_backup_leaves_an_empty_folder() {
    let (home, _) = backed_up(&[]);
    let mut bytes = std::fs::read(home.path("b.tar")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(home.path("changed.tar"), &bytes).unwrap();
    std::fs::write(home.path("cut.tar"), &bytes[..middle]).unwrap();
    for file in ["changed.tar", "cut.tar"] {
        let refused = at(&home, "copy", &["--json", "restore", file]);
        assert_eq!(refused.code, 2, "{file}");
        assert_eq!(refused.document()["error"]["code"], "no_backup", "{file}");
        assert_eq!(names(&home.path("copy")), Vec::<String>::new());
    }
    let restored = at(&home, "copy", &["restore", "b.tar"]);
    assert_eq!(restored.code, 0, "{}", restored.stderr);
}
