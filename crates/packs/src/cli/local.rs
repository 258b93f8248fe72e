//! Installs a pack folder as it is, for local work: unsigned, under a version of its own.

use std::path::Path;
use std::sync::Arc;

use crate::cli::folder;
use crate::config::PackSettings;
use crate::rules::build::local::localize;
use crate::rules::build::{Files, build};
use crate::rules::format::PackFormat;
use crate::rules::inventory::PackFacts;
use crate::rules::verify::{Fetched, Trust, TrustMode, verify};
use crate::rules::{Refusal, Stage};
use crate::service::packs::{Actor, Candidate, Packs};
use touchstone_host::cli::context::{Context, Purpose, Start};
use touchstone_host::cli::exit::Failure;

/// Installs the folder in the embedded host, unless this content is installed already.
///
/// # Errors
/// The folder cannot be read, or is not a valid pack.
pub async fn install_folder(
    context: &Context<'_>,
    format: PackFormat,
    path: &Path,
) -> Result<PackFacts, Failure> {
    install_files(context, format, path, &folder::read(path)?).await
}

/// Installs the files of a pack, which need not be on disk. `path` is where a reader finds them.
///
/// # Errors
/// The files are not a valid pack.
pub async fn install_files(
    context: &Context<'_>,
    format: PackFormat,
    path: &Path,
    files: &Files,
) -> Result<PackFacts, Failure> {
    let settings: PackSettings = context.settings()?;
    let trust = Trust {
        mode: TrustMode::Open,
        ..Trust::default()
    };
    let verified = localize(files).and_then(|local| {
        let tgz = build(&local)?;
        let fetched = Fetched {
            served: None,
            tgz: &tgz,
            signature: None,
        };
        let pack = verify(None, fetched, &trust, &settings.policy(), None, format)?;
        Ok(Candidate {
            pack,
            tgz: tgz.into(),
        })
    });
    let candidate = verified.map_err(|refusal| not_a_pack(context, path, &refusal))?;
    // The folder is the user's own: the trust of the configuration is about packs of others.
    let start = Start::new(Purpose::Records).with(PackSettings {
        trust: TrustMode::Open,
        lockfile: None,
        ..settings
    });
    let session = context.open(start).await?;
    let packs = session.service::<Arc<Packs>>().ok_or_else(|| {
        Failure::not_done("internal_error", "the embedded host has no pack service")
    })?;
    let installed = packs.install(&Actor::local(), &candidate).await;
    session.close().await;
    Ok(installed?)
}

fn not_a_pack(context: &Context<'_>, path: &Path, refusal: &Refusal) -> Failure {
    let place = match (&refusal.file, refusal.stage) {
        (Some(file), _) if path.is_dir() => format!("{}: ", path.join(file).display()),
        (Some(_), _) | (None, Stage::Archive) => format!("{}: ", path.display()),
        (None, _) => String::new(),
    };
    let failure = Failure::bad_input(refusal.code.as_str(), format!("{place}{}", refusal.reason));
    if !path.is_dir() {
        return failure;
    }
    failure.or_try(format!(
        "{} pack lint {}",
        context.program(),
        path.display()
    ))
}
