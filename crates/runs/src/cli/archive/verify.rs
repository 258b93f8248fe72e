//! `touchstone archive verify`.

use std::path::Path;

use clap::Args;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;

use super::source::Source;
use crate::rules::archive::reader::read;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::files;
use touchstone_kit::keys::PublicKey;

/// Maximum size of a key file in bytes.
const MAX_KEY: u64 = 64 << 10;

#[derive(Debug, Args)]
pub struct Verify {
    /// File, or run in the configured archive
    #[arg(value_name = "FILE|RUN")]
    archive: String,
    // Same name and type as the global API key option, which it replaces.
    /// Public key file of the host that wrote the archive: PEM, or base64 of the 32 bytes
    #[arg(long, value_name = "FILE")]
    key: SecretString,
}

pub async fn run(context: &Context<'_>, arguments: &Verify) -> Result<Exit, Failure> {
    let key = key(Path::new(arguments.key.expose_secret()))?;
    let mut source = Source::open(context, &arguments.archive).await?;
    let found = read(source.reader()?, Some(&key), |_, _| {});
    let terminal = context.terminal();
    let name = &source.name;
    let archive = match found {
        Ok(archive) => archive,
        Err(fault) if fault.is_bad_input() => return Err(source.refused(&fault)),
        Err(fault) => {
            match terminal.json() {
                true => terminal
                    .document(&json!({"ok": false, "archive": name, "reason": fault.to_string()})),
                false => terminal.print(&format!("{} {name}: {fault}", terminal.colors().bad("✗"))),
            }
            return Ok(Exit::Negative);
        }
    };
    let manifest = &archive.manifest;
    if terminal.json() {
        let key_id = key.fingerprint();
        terminal
            .document(&json!({"ok": true, "archive": name, "keyId": key_id, "manifest": manifest}));
    } else {
        terminal.print(&format!(
            "{} {name}: run {} of tenant {}, {}, {} events, written by {} {}",
            terminal.colors().good("✓"),
            manifest.run_id,
            manifest.tenant,
            manifest.status,
            manifest.events,
            manifest.host.id,
            manifest.host.version,
        ));
    }
    Ok(Exit::Good)
}

fn key(file: &Path) -> Result<PublicKey, Failure> {
    let text = String::from_utf8_lossy(&files::read(file, MAX_KEY)?).into_owned();
    PublicKey::from_text(&text).map_err(|fault| {
        Failure::bad_input("no_public_key", format!("{} {fault}", file.display()))
            .or_try("run touchstone attest --public-key --out host.pub on the host")
    })
}
