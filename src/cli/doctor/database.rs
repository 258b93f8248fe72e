//! The database: reachable, sound, of this version, writable; its clock; and what is held in it.

use std::path::Path;
use std::sync::Arc;

use jiff::SignedDuration;

use crate::app;
use crate::cli::backup::dump_command;
use crate::cli::doctor::finding::{Area, Finding};
use crate::config::Config;
use crate::database::{self, SCHEMAS};
use touchstone_host::cli::exit::with_causes;
use touchstone_host::ports::clock::Clock as _;
use touchstone_host::render::words::bytes;
use touchstone_host::store::copies::inspection::{Inspection, inspect};
use touchstone_host::store::database::Database;
use touchstone_host::system::SystemClock;
use touchstone_host::system::host_key::HostKeyFile;
use touchstone_kit::ids::RunId;
use touchstone_runs::service::projections::stored;

/// Beyond this difference between two clocks, times of day are misleading.
const MAX_SKEW: SignedDuration = SignedDuration::from_secs(2);

/// How many runs are compared with their logs, and how long such a log may be.
const COMPARED_RUNS: u32 = 10;
const COMPARED_EVENTS: u32 = 100_000;

/// Checks the database; returns it unless it cannot be used.
pub async fn check(
    config: &Config,
    program: &str,
    found: &mut Vec<Finding>,
) -> Option<Arc<Database>> {
    const AREA: Area = Area::Database;
    let file = app::database_file(config);
    if !app::has_store(config) {
        let place = file.unwrap_or_default();
        let text = format!("{} does not exist yet", place.display());
        found.push(match creatable(&place) {
            Ok(()) => Finding::ok(AREA, format!("{text}; the first start creates it")),
            Err(cause) => Finding::failure(
                AREA,
                format!("{text}, and this user cannot create it: {cause}"),
                "name a data folder with --data in which this user can create files, or change its owner",
            ),
        });
        found.push(Finding::ok(
            Area::Clock,
            format!(
                "{}; it is compared with the database once that exists",
                SystemClock.now()
            ),
        ));
        return None;
    }
    let inspection = match inspect(&app::location(config), &SCHEMAS).await {
        Ok(inspection) => inspection,
        Err(cause) => {
            let remedy = match &file {
                Some(file) => format!(
                    "follow what the message says; if the file is damaged, restore a backup of {} as docs/backup.md says",
                    file.display()
                ),
                None => "check --database-url, the server and the network between".to_owned(),
            };
            found.push(Finding::failure(AREA, with_causes(&cause), remedy));
            return None;
        }
    };
    let backup = match &file {
        Some(_) => format!("{program} backup before-upgrade.tar"),
        None => dump_command(config, "before-upgrade.dump"),
    };
    report(&inspection, program, backup, found);
    if inspection.pending > 0 || !inspection.faults.is_empty() {
        return None;
    }
    // A given file keeps its permissions, which the check of the keys reports.
    let path = app::host_key_path(config);
    let keys = HostKeyFile::given(&path).unwrap_or_else(|_| HostKeyFile::existing(path));
    let keys = Arc::new(keys);
    let store = match database::open(&app::location(config), keys).await {
        Ok(store) => store,
        Err(cause) => {
            let remedy = "run this as the user of the host, who owns the data folder";
            found.push(Finding::failure(AREA, with_causes(&cause), remedy));
            return None;
        }
    };
    opened(&store, program, found).await;
    Some(store)
}

/// Whether a file could be created with its missing folders. Nothing is left.
fn creatable(file: &Path) -> std::io::Result<()> {
    let file = std::path::absolute(file)?;
    let folders = file.ancestors().skip(1);
    match folders.into_iter().find(|folder| folder.exists()) {
        Some(folder) => tempfile::tempfile_in(folder).map(drop),
        None => Err(std::io::ErrorKind::NotFound.into()),
    }
}

fn report(inspection: &Inspection, program: &str, backup: String, found: &mut Vec<Finding>) {
    const AREA: Area = Area::Database;
    if let Some(fault) = inspection.faults.first() {
        found.push(Finding::failure(
            AREA,
            format!("the integrity check found damage: {fault}"),
            "stop the host and restore a backup, as docs/backup.md says",
        ));
    }
    match inspection.pending {
        0 => {}
        pending => found.push(Finding::warning(
            AREA,
            format!(
                "the tables are of an earlier version; back it up before the next start, which applies {pending} migrations"
            ),
            backup,
        )),
    }
    if let Some(mode) = inspection
        .journal_mode
        .as_deref()
        .filter(|mode| *mode != "wal")
    {
        found.push(Finding::warning(
            AREA,
            format!("the journal mode is `{mode}` instead of `wal`, so readers block writers; the next command sets it"),
            format!("{program} key list"),
        ));
    }
}

/// What only an open database shows.
async fn opened(store: &Database, program: &str, found: &mut Vec<Finding>) {
    const AREA: Area = Area::Database;
    match (store.check_writable().await, store.size().await) {
        (Ok(()), Ok(size)) => found.push(Finding::ok(
            AREA,
            format!(
                "{}, {}, sound, current and writable",
                store.engine_name(),
                bytes(size)
            ),
        )),
        (Err(cause), _) | (_, Err(cause)) => found.push(Finding::failure(
            AREA,
            with_causes(&cause),
            "free space on the disk, and check that this user may write to the database",
        )),
    }
    match store.held().await {
        Ok(held) if held.is_empty() => {}
        Ok(held) => {
            let held: Vec<String> = held
                .iter()
                .map(|it| format!("{} {}", it.count, it.name))
                .collect();
            found.push(Finding::warning(
                AREA,
                format!("this is a restored copy, which holds {}; release them if the original has stopped permanently", held.join(", ")),
                format!("{program} restore --take-over"),
            ));
        }
        Err(cause) => found.push(Finding::failure(
            AREA,
            with_causes(&cause),
            "run this again when the database answers",
        )),
    }
    stored_states(store, found).await;
    clock(store, found).await;
}

/// Whether the stored states of some runs are what their logs fold to.
async fn stored_states(store: &Database, found: &mut Vec<Finding>) {
    const AREA: Area = Area::Database;
    const REMEDY: &str = "delete all rows of the table run_projection, which are computed again from the logs, and report this";
    match stored::compare(store, COMPARED_RUNS, COMPARED_EVENTS).await {
        Ok(compared) if compared.wrong.is_empty() => {
            if compared.equal > 0 {
                let text = format!(
                    "the stored states of {} runs are those of their logs",
                    compared.equal
                );
                found.push(Finding::ok(AREA, text));
            }
        }
        Ok(compared) => {
            let wrong: Vec<&str> = compared.wrong.iter().map(RunId::as_str).collect();
            let text = format!(
                "the stored state differs from the log of {}",
                wrong.join(", ")
            );
            found.push(Finding::failure(AREA, text, REMEDY));
        }
        Err(cause) => found.push(Finding::failure(
            AREA,
            with_causes(&cause),
            "run this again when the database answers",
        )),
    }
}

async fn clock(store: &Database, found: &mut Vec<Finding>) {
    const AREA: Area = Area::Clock;
    const REMEDY: &str = "timedatectl set-ntp true";
    let (Ok(theirs), Ok(newest)) = (store.time().await, store.newest_run_at().await) else {
        return;
    };
    let ours = SystemClock.now();
    let skew = ours.duration_since(theirs).abs();
    if skew > MAX_SKEW {
        found.push(Finding::warning(
            AREA,
            format!(
                "the clocks of the host and of the database differ by {} s",
                skew.as_secs()
            ),
            REMEDY,
        ));
    } else if let Some(newest) = newest.filter(|newest| *newest > ours) {
        found.push(Finding::warning(
            AREA,
            format!("the clock shows {ours}, but the newest run was created at {newest}"),
            REMEDY,
        ));
    } else {
        found.push(Finding::ok(AREA, format!("{ours}, as in the database")));
    }
}
