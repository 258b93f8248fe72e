//! `touchstone attest provenance`: verify offline that files are artifacts of a signed build.

use std::path::PathBuf;

use clap::Args;
use secrecy::SecretString;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::verify::octets;
use touchstone_deployments::attestation::Rejected;
use touchstone_deployments::attestation::envelopes;
use touchstone_deployments::attestation::provenance::{ReleaseProvenance, read};
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_kit::hex::hex;
use touchstone_kit::keys::PublicKey;
use touchstone_openwop::dsse::Unverified;

const EXAMPLES: &str = "\
Reads files only and contacts no host. A file is recognized by its content, whatever its name.

Exit codes: 0 the build signed by this key made every file, 1 it did not, 2 bad input.

Examples:
  touchstone attest provenance touchstone-0.1.0.provenance.json --key release.pub \\
    touchstone-0.1.0-linux-x86_64.tar.xz
  touchstone attest provenance touchstone-0.1.0.provenance.json --key release.pub \\
    /usr/bin/touchstone";

/// Verify offline that files are artifacts of a signed build (SLSA provenance)
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Provenance file: a DSSE envelope, or an in-toto bundle
    #[arg(value_name = "FILE")]
    file: PathBuf,
    // Same name and type as the global API key option, which it replaces: this command contacts no
    // host.
    /// Public key file of the release: PEM, or base64 of the 32 bytes
    #[arg(long, value_name = "FILE")]
    key: SecretString,
    /// Files to verify
    #[arg(value_name = "ARTIFACT", required = true)]
    artifacts: Vec<PathBuf>,
}

pub fn run(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    let key = super::trusted_key(&arguments.key, "ask for the public key of the release")?;
    let provenance = provenance(arguments, &key)?;
    let mut checked: Vec<(String, String, bool)> = Vec::new();
    for file in &arguments.artifacts {
        let digest = hex(&Sha256::digest(octets(file)?));
        let known = provenance
            .as_ref()
            .is_ok_and(|it| it.artifact(&digest).is_some());
        checked.push((file.display().to_string(), digest, known));
    }
    let good = checked.iter().all(|(_, _, known)| *known);
    let terminal = context.terminal();
    if terminal.json() {
        let artifacts: Vec<Value> = checked
            .iter()
            .map(|(file, sha256, known)| json!({"file": file, "sha256": sha256, "verified": known}))
            .collect();
        let mut document = json!({"ok": good, "keyId": key.fingerprint(), "artifacts": artifacts});
        if let Some(members) = document.as_object_mut() {
            match &provenance {
                Ok(it) => {
                    members.insert("sourceCommit".to_owned(), json!(it.source_commit()));
                    members.insert("reservations".to_owned(), json!(it.reservations()));
                    members.insert("provenance".to_owned(), json!(it.build));
                }
                Err(rejected) => {
                    members.insert("reason".to_owned(), json!(rejected.to_string()));
                    if let Some(remedy) = remedy(rejected) {
                        members.insert("remedy".to_owned(), json!(remedy));
                    }
                }
            }
        }
        terminal.document(&document);
    } else {
        let colors = terminal.colors();
        match &provenance {
            Ok(it) => {
                for (file, _, known) in &checked {
                    terminal.print(&match known {
                        true => format!("{} {file}", colors.good("✓")),
                        false => {
                            format!("{} {file}: not an artifact of this build", colors.bad("✗"))
                        }
                    });
                }
                terminal.print(&format!(
                    "  built by {} from commit {}",
                    it.build.run_details.builder.id,
                    it.source_commit().unwrap_or("unknown"),
                ));
                for reservation in it.reservations() {
                    terminal.print(&format!("  {} {reservation}", colors.bad("!")));
                }
            }
            Err(rejected) => {
                terminal.print(&format!("{} rejected: {rejected}", colors.bad("✗")));
                if let Some(remedy) = remedy(rejected) {
                    terminal.note(&format!("  try: {remedy}"));
                }
            }
        }
    }
    Ok(if good { Exit::Good } else { Exit::Negative })
}

const fn remedy(rejected: &Rejected) -> Option<&'static str> {
    match rejected {
        Rejected::Unverified(Unverified::Unsigned) => Some(
            "ask for the signed provenance of the release, or sign your own build with `dist/build --key FILE`",
        ),
        _ => None,
    }
}

/// The first provenance in the file that the key has signed, or why there is none.
fn provenance(
    arguments: &Arguments,
    key: &PublicKey,
) -> Result<Result<ReleaseProvenance, Rejected>, Failure> {
    let mut results = envelopes(&octets(&arguments.file)?)
        .into_iter()
        .map(|envelope| read(&envelope, key));
    let Some(first) = results.next() else {
        let text = format!("{} contains no DSSE envelope", arguments.file.display());
        return Err(Failure::bad_input("no_attestation", text)
            .or_try("name the file touchstone-VERSION.provenance.json of the release"));
    };
    Ok(first.or_else(|rejected| results.find_map(Result::ok).ok_or(rejected)))
}
