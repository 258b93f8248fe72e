//! `touchstone backup`: a copy of the embedded database in one file, while hosts use it.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use tempfile::{NamedTempFile, TempDir};

use crate::app;
use crate::cli::embedded;
use crate::config::Config;
use crate::database::SCHEMAS;
use touchstone_host::backup::manifest::{BackupFile, Manifest};
use touchstone_host::backup::{describe, write};
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure, with_causes};
use touchstone_host::cli::shell::database_url;
use touchstone_host::ports::clock::Clock as _;
use touchstone_host::ports::host_keys::HostKeys as _;
use touchstone_host::ports::store::StoreError;
use touchstone_host::render::words::bytes;
use touchstone_host::store::copies::inspection::inspect;
use touchstone_host::store::copies::snapshot::{NoSnapshot, snapshot};
use touchstone_host::system::SystemClock;
use touchstone_host::system::host_key::HostKeyFile;
use touchstone_runs::cli::watch::Interrupts;

/// Start of the names of temporary folders.
pub const TEMPORARY: &str = ".touchstone-backup-";

const EXAMPLES: &str = "\
Hosts and commands may use the data folder meanwhile. The file appears under its name only when it
is complete and was written to disk. It needs twice the space of the database for a while.

The keys of the host (secrets.pem, attest.pem) are not in the file, because with them it would be
as good as an unencrypted copy: back them up separately, or add them with --with-keys. For
PostgreSQL, use pg_dump; docs/backup.md has the commands.

Exit codes: 0 done, 2 bad input, 3 could not complete.

Examples:
  touchstone backup touchstone-2026-11-28.tar
  touchstone backup /mnt/backup/touchstone.tar --data /var/lib/touchstone
  touchstone backup touchstone.tar --with-keys";

/// Back up the embedded database to a file, while a host serves it
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// File to write; it must not exist
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Include the private keys of the host; keep the file as safe as they are
    #[arg(long)]
    with_keys: bool,
}

pub async fn run(context: &Context<'_>, arguments: Arguments) -> Result<Exit, Failure> {
    let config = embedded::config(context.global())?;
    let database = database(&config)?;
    if arguments.file.as_os_str() == "-" {
        // A pipe has no name that could appear only when the backup is complete.
        return Err(
            Failure::usage("a backup is written to a file, not to standard output")
                .or_try("name a file; for one that is called `-`, write ./-"),
        );
    }
    let folder = folder_of(&arguments.file)?;
    let mut interrupts = Interrupts::listen()?;
    let temporary = tempfile::Builder::new()
        .prefix(TEMPORARY)
        .tempdir_in(&folder);
    let temporary = temporary.map_err(|cause| unwritable(&folder, &cause.to_string()))?;
    // An interrupt drops the temporary folder.
    let manifest = tokio::select! {
        manifest = made(&config, &database, &temporary, &arguments) => manifest?,
        _ = interrupts.next() => {
            return Err(Failure::not_done("interrupted", "interrupted; no backup was written"));
        }
    };
    print(context, &config, &arguments, &manifest);
    Ok(Exit::Good)
}

/// The file of the embedded database.
fn database(config: &Config) -> Result<PathBuf, Failure> {
    let Some(file) = app::database_file(config) else {
        return Err(Failure::bad_input(
            "postgres_database",
            "the database is on a PostgreSQL server, which has its own tools for backups",
        )
        .or_try(format!(
            "{}; docs/backup.md says how to restore it",
            dump_command(config, "touchstone.dump")
        )));
    };
    match File::open(&file).and_then(|it| it.metadata()) {
        Ok(found) if found.is_file() => Ok(file),
        Ok(_) => Err(unreadable(&file, "it is not a file")),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Err(Failure::bad_input(
            "no_database",
            format!("{} does not exist", file.display()),
        )
        .or_try("name the data folder with --data, or the configuration with --config")),
        Err(cause) => Err(unreadable(&file, &cause.to_string())),
    }
}

/// The command that backs up a database on a PostgreSQL server.
pub fn dump_command(config: &Config, file: &str) -> String {
    let url = config.database_url.as_deref().unwrap_or_default();
    format!(
        "pg_dump --format=custom --file={file} {}",
        database_url(url)
    )
}

fn unreadable(database: &Path, cause: &str) -> Failure {
    let text = format!(
        "could not read the database {}: {cause}",
        database.display()
    );
    Failure::bad_input("unreadable", text).or_try(
        "run this as the user of the host, who owns the data folder, or name another folder with --data",
    )
}

fn damaged(database: &Path, cause: &str) -> Failure {
    let text = format!("the database {} is damaged: {cause}", database.display());
    Failure::not_done("database_damaged", text)
        .or_try("restore an earlier backup; docs/backup.md says how")
}

/// The folder to write to.
fn folder_of(file: &Path) -> Result<PathBuf, Failure> {
    let folder = file.parent().filter(|it| *it != Path::new(""));
    let folder = folder.unwrap_or(Path::new("."));
    if !folder.is_dir() {
        let text = format!("the folder {} does not exist", folder.display());
        return Err(Failure::bad_input("no_such_folder", text).or_try("create it, then try again"));
    }
    if file.exists() {
        return Err(exists(file));
    }
    // SQLite reads a relative name such as `file:a` as a URI.
    let absolute = std::path::absolute(folder);
    absolute.map_err(|cause| unwritable(folder, &cause.to_string()))
}

fn exists(file: &Path) -> Failure {
    let text = format!("{} exists, and a backup replaces no file", file.display());
    Failure::bad_input("file_exists", text).or_try("choose another name, such as one with the date")
}

fn unwritable(path: &Path, cause: &str) -> Failure {
    let text = format!("could not write {}: {cause}", path.display());
    Failure::not_done("file_not_written", text).or_try(
        "choose a folder that this user can write to, with twice the size of the database free",
    )
}

/// Makes the backup in a temporary folder and gives it its name.
async fn made(
    config: &Config,
    database: &Path,
    temporary: &TempDir,
    arguments: &Arguments,
) -> Result<Manifest, Failure> {
    let made_at = SystemClock.now();
    let copy = temporary.path().join(BackupFile::Database.name());
    let unwritten = |cause: &StoreError| unwritable(temporary.path(), &with_causes(cause));
    snapshot(database, &copy)
        .await
        .map_err(|fault| match fault {
            NoSnapshot::Unreadable(cause) => unreadable(database, &with_causes(&cause)),
            NoSnapshot::Damaged(cause) => damaged(database, &with_causes(&cause)),
            NoSnapshot::Unwritten(cause) => unwritten(&cause),
        })?;
    let location = format!("sqlite:{}", copy.display());
    let inspected = inspect(&location, &SCHEMAS).await;
    let found = inspected.map_err(|cause| unwritten(&cause))?;
    if let Some(fault) = found.faults.first() {
        return Err(damaged(database, fault));
    }
    let mut files = vec![BackupFile::Database];
    if arguments.with_keys {
        for (file, path) in keys(config).into_iter().rev() {
            let to = temporary.path().join(file.name());
            std::fs::copy(&path, &to).map_err(|cause| {
                let text = format!("could not copy the key {}: {cause}", path.display());
                Failure::not_done("file_not_written", text)
                    .or_try("make the key readable for this user, or omit --with-keys")
            })?;
            files.insert(0, file);
        }
    }
    let (folder, to) = (temporary.path().to_owned(), arguments.file.clone());
    let host_key_id = host_key_id(config);
    let written = tokio::task::spawn_blocking(move || {
        let manifest = describe(&folder, &files, made_at, host_key_id)?;
        let mut file = NamedTempFile::new_in(&folder)?;
        write(&manifest, &folder, file.as_file_mut())?;
        file.as_file().sync_all()?;
        file.persist_noclobber(&to).map_err(|fault| fault.error)?;
        let parent = to.parent().filter(|it| *it != Path::new(""));
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok::<_, std::io::Error>(manifest)
    });
    let written = written.await.map_err(std::io::Error::other).flatten();
    written.map_err(|cause| match cause.kind() {
        ErrorKind::AlreadyExists => exists(&arguments.file),
        _ => unwritable(&arguments.file, &cause.to_string()),
    })
}

/// The key files of the host that exist.
fn keys(config: &Config) -> Vec<(BackupFile, PathBuf)> {
    let files = [
        (BackupFile::HostKey, Some(app::host_key_path(config))),
        (BackupFile::SigningKey, app::signing_key_path(config)),
    ];
    let files = files
        .into_iter()
        .filter_map(|(file, path)| Some((file, path?)));
    files.filter(|(_, path)| path.is_file()).collect()
}

/// The id of the key that encrypts secrets, if it can be read.
fn host_key_id(config: &Config) -> Option<String> {
    let keys = HostKeyFile::given(&app::host_key_path(config)).ok()?;
    Some(keys.ring().ok()?.id().to_owned())
}

fn print(context: &Context<'_>, config: &Config, arguments: &Arguments, manifest: &Manifest) {
    let left_out = match arguments.with_keys {
        true => Vec::new(),
        false => keys(config),
    };
    let terminal = context.terminal();
    if terminal.json() {
        let left_out: Vec<_> = left_out
            .iter()
            .map(|(file, path)| json!({"name": file, "path": path}))
            .collect();
        terminal.document(&json!({
            "file": arguments.file, "manifest": manifest, "notIncluded": left_out,
        }));
        return;
    }
    terminal.print(&format!("{}", arguments.file.display()));
    for file in &manifest.files {
        let name = file.name.name();
        terminal.print(&format!(
            "  {name:<13}  {:>9}  sha256 {}",
            bytes(file.bytes),
            file.sha256
        ));
    }
    for (file, path) in left_out {
        let without = match file {
            BackupFile::HostKey => {
                "without it, a restored host cannot decrypt its secrets and does not start"
            }
            _ => "without it, a restored host signs verdicts with another key",
        };
        terminal.note(&format!(
            "not in the file: {} ({without}); back it up separately, or use --with-keys",
            path.display()
        ));
    }
}
