//! `touchstone restore`: put a backup into an empty data folder, and decide what a copy of a database
//! may do (ADR 58).

use std::fs::File;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use tempfile::{TempDir, TempPath};

use crate::app;
use crate::cli::backup::TEMPORARY;
use crate::cli::embedded;
use crate::cli::embedded::started;
use crate::config::Config;
use crate::database::{self, SCHEMAS};
use touchstone_host::audit::Decision;
use touchstone_host::backup;
use touchstone_host::backup::Unreadable;
use touchstone_host::backup::manifest::{BackupFile, Manifest};
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure, with_causes};
use touchstone_host::cli::shell::quoted;
use touchstone_host::ports::clock::Clock as _;
use touchstone_host::ports::host_keys::HostKeys as _;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::copies::held::HeldCount;
use touchstone_host::store::copies::inspection::inspect;
use touchstone_host::store::database::Database;
use touchstone_host::system::SystemClock;
use touchstone_host::system::host_key::HostKeyFile;

/// The principal of these entries of the audit log.
const PRINCIPAL: &str = "host:restore";

const EXAMPLES: &str = "\
The original host may still be running. A host on the restored copy therefore does not touch work
that the original continues: unfinished runs, webhooks, and watches of agent cards. They are held
until --take-over, which you use when the original has stopped permanently. New runs and webhooks
work as usual. --hold does the same to a database that another tool copied, such as pg_restore.

Exit codes: 0 done, 2 bad input, 3 could not complete.

Examples:
  touchstone restore touchstone-2026-11-28.tar --data /var/lib/touchstone
  touchstone restore touchstone.tar --data ./restored --take-over
  touchstone restore --take-over --data ./restored
  touchstone restore --hold --database-url postgres://touchstone@db/staging";

/// Restore a backup into an empty data folder
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Backup to restore
    #[arg(value_name = "FILE", required_unless_present_any = ["take_over", "hold"])]
    file: Option<PathBuf>,
    /// Let hosts continue unfinished runs, webhooks and watches: the original has stopped permanently.
    /// Without FILE, release what an earlier restore held
    #[arg(long)]
    take_over: bool,
    /// Hold unfinished runs, webhooks and watches in a database that is a copy
    #[arg(long, conflicts_with_all = ["file", "take_over"])]
    hold: bool,
}

pub async fn run(context: &Context<'_>, arguments: Arguments) -> Result<Exit, Failure> {
    let config = embedded::config(context.global())?;
    match &arguments.file {
        Some(file) => restore(context, &config, file, arguments.take_over).await,
        None => change(context, &config, arguments.take_over).await,
    }
}

/// Holds or releases the work of an existing database.
async fn change(context: &Context<'_>, config: &Config, take_over: bool) -> Result<Exit, Failure> {
    if !app::has_store(config) {
        let text = format!("there is no database in {}", config.data.display());
        return Err(Failure::bad_input("no_database", text)
            .or_try("name the data folder with --data, or the server with --database-url"));
    }
    let keys = Arc::new(HostKeyFile::existing(app::host_key_path(config)));
    let store = started(app::open_store(config, &keys).await)?;
    let changed = match take_over {
        true => store.release_held(&decision("backup:take-over", &[])).await,
        false => store.begin_copy(true, &decision("backup:hold", &[])).await,
    };
    let changed = changed.map_err(|cause| store_failed(&cause))?;
    store.close().await;
    let terminal = context.terminal();
    if terminal.json() {
        let state = if take_over { "released" } else { "held" };
        terminal.document(&json!({state: changed}));
    } else {
        let verb = if take_over { "released" } else { "held" };
        terminal.print(&format!("{verb}: {}", listed(&changed)));
    }
    Ok(Exit::Good)
}

async fn restore(
    context: &Context<'_>,
    config: &Config,
    file: &Path,
    take_over: bool,
) -> Result<Exit, Failure> {
    if config.database_url.is_some() {
        return Err(Failure::bad_input(
            "postgres_database",
            "`database_url` is set, but a backup is restored into a data folder",
        )
        .or_try(
            "name a folder with --data; for PostgreSQL, use pg_restore as docs/backup.md says",
        ));
    }
    let source = File::open(file).map_err(|cause| {
        let text = format!("could not read {}: {cause}", file.display());
        Failure::bad_input("unreadable", text).or_try("name a file that `touchstone backup` wrote")
    })?;
    let temporary = empty_folder(&config.data)?;
    let folder = temporary.path().to_owned();
    let unpacked = tokio::task::spawn_blocking(move || backup::read(source, &folder)).await;
    let manifest = unpacked
        .map_err(|cause| Failure::not_done("internal_error", cause.to_string()))?
        .map_err(|fault| refused(file, &config.data, &fault))?;
    let held = prepared(temporary.path(), &manifest, take_over).await?;
    placed(temporary, &manifest, &config.data)?;
    let missing_key = missing_key(config, &manifest);
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&json!({
            "data": config.data, "manifest": manifest, "held": held,
            "hostKeyMissing": missing_key.is_some(),
        }));
        return Ok(Exit::Good);
    }
    terminal.print(&format!(
        "restored the backup of {} to {}",
        manifest.made_at,
        config.data.display()
    ));
    if !held.is_empty() {
        let data = quoted(&config.data.display().to_string()).into_owned();
        terminal.print(&format!("held: {}", listed(&held)));
        terminal.note(&format!(
            "if the original has stopped permanently: touchstone restore --take-over --data {data}"
        ));
    }
    if let Some(missing) = missing_key {
        terminal.note(&missing);
    }
    Ok(Exit::Good)
}

/// The data folder, which must be empty, with a temporary folder in it.
fn empty_folder(data: &Path) -> Result<TempDir, Failure> {
    // An empty disk has this folder.
    const OF_THE_DISK: &str = "lost+found";
    let failed = |cause: io::Error| {
        let text = format!("the data folder {} cannot be used: {cause}", data.display());
        Failure::not_done("start_failed", text).or_try("choose another folder with --data")
    };
    app::private_folder(data).map_err(failed)?;
    for entry in std::fs::read_dir(data).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if name != OF_THE_DISK {
            let name = name.to_string_lossy();
            let text = format!(
                "the data folder {} is not empty: it has {name}",
                data.display()
            );
            return Err(Failure::bad_input("folder_not_empty", text)
                .or_try("choose another folder with --data, or move the files away"));
        }
    }
    // In the same file system, so that the files can be renamed to their places.
    let temporary = tempfile::Builder::new().prefix(TEMPORARY).tempdir_in(data);
    temporary.map_err(failed)
}

fn refused(file: &Path, data: &Path, fault: &Unreadable) -> Failure {
    let text = format!("{}: {}", file.display(), with_causes(fault));
    match fault {
        Unreadable::NotABackup(_) => Failure::bad_input("no_backup", text)
            .or_try("name a file that `touchstone backup` wrote"),
        Unreadable::Damaged(_) => {
            Failure::bad_input("no_backup", text).or_try("use another backup")
        }
        Unreadable::Write { .. } => Failure::not_done("file_not_written", text).or_try(format!(
            "check the free space of the disk of {}",
            data.display()
        )),
    }
}

/// Checks the unpacked database, brings its tables up to date and decides what it may do.
async fn prepared(
    folder: &Path,
    manifest: &Manifest,
    take_over: bool,
) -> Result<Vec<HeldCount>, Failure> {
    let database = folder.join(BackupFile::Database.name());
    let location = format!("sqlite:{}", database.display());
    let unusable = |text: String| {
        Failure::bad_input("no_backup", text)
            .or_try("use another backup, or the program that made it")
    };
    let found = inspect(&location, &SCHEMAS).await;
    let found = found.map_err(|cause| unusable(with_causes(&cause)))?;
    if let Some(fault) = found.faults.first() {
        return Err(unusable(format!(
            "the database in the backup is damaged: {fault}"
        )));
    }
    // Nothing is decrypted, so the key need not be there yet.
    let keys = Arc::new(HostKeyFile::own(folder.join(BackupFile::HostKey.name())));
    let store: Arc<Database> = database::open(&location, keys)
        .await
        .map_err(|cause| store_failed(&cause))?;
    let made = format!(
        "backup: made at {} by {}",
        manifest.made_at, manifest.made_by
    );
    let decision = decision("backup:restore", &[made]);
    let held = store.begin_copy(!take_over, &decision).await;
    let held = held.map_err(|cause| store_failed(&cause))?;
    store.close().await;
    drop(store);
    // A log that is left has changes that the database itself lacks.
    if folder.join("touchstone.db-wal").exists() {
        return Err(
            Failure::not_done("store_failed", "the restored database could not be closed")
                .or_try("try again"),
        );
    }
    Ok(held)
}

fn decision(action: &str, reasons: &[String]) -> Decision {
    let decision = Decision::done(SystemClock.now(), PRINCIPAL, action, "database".to_owned());
    decision.because(reasons.to_vec())
}

fn store_failed(cause: &StoreError) -> Failure {
    Failure::not_done("store_failed", with_causes(cause))
}

/// Moves the files to their places, the database last: without it, the folder is not in use.
fn placed(temporary: TempDir, manifest: &Manifest, data: &Path) -> Result<(), Failure> {
    let place = || -> io::Result<()> {
        for file in &manifest.files {
            let name = file.name.name();
            let from = temporary.path().join(name);
            File::open(&from)?.sync_all()?;
            // Replaces nothing: a host may have been started here meanwhile.
            let from = TempPath::try_from_path(from)?;
            from.persist_noclobber(data.join(name))
                .map_err(|fault| fault.error)?;
        }
        temporary.close()?;
        File::open(data)?.sync_all()
    };
    place().map_err(|cause| {
        let text = format!("could not write to {}: {cause}", data.display());
        Failure::not_done("file_not_written", text)
            .or_try("start no host in this folder before the restore is done, and try again")
    })
}

/// What to do if the key that decrypts the secrets is not there.
fn missing_key(config: &Config, manifest: &Manifest) -> Option<String> {
    let expected = manifest.host_key_id.as_deref()?;
    let path = app::host_key_path(config);
    let keys = HostKeyFile::given(&path).ok();
    let ring = keys.and_then(|keys| keys.ring().ok());
    if ring.is_some_and(|ring| ring.id() == expected) {
        return None;
    }
    Some(format!(
        "the host does not start without its key {expected}: copy the original's secrets.pem to {} before you start it",
        path.display()
    ))
}

fn listed(counts: &[HeldCount]) -> String {
    let counts: Vec<String> = counts
        .iter()
        .map(|held| format!("{} ({})", held.name, held.count))
        .collect();
    match counts.is_empty() {
        true => "nothing".to_owned(),
        false => counts.join(", "),
    }
}
