//! `touchstone attest`: export the signed verdict of a run, for use without access to this host,
//! and verify such a verdict, or the provenance of the program itself.

pub mod provenance;
pub mod verify;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use touchstone_deployments::attestation::{Rejected, UnusableBaseline, attested_run};
use touchstone_host::cli::command_target::CommandTarget;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_kit::keys::PublicKey;
use touchstone_openwop::in_toto::Envelope;
use touchstone_runs::rules::eval::comparison::attested::AttestedRun;

const EXAMPLES: &str = "\
Exit codes: 0 attested, whatever the verdict; 2 bad input, 3 could not complete.

Examples:
  touchstone attest run_0199c0de --out triage.intoto.jsonl
  touchstone attest run_0199c0de --channel stable --out triage.intoto.jsonl
  touchstone attest --public-key --out host.pub
  touchstone attest verify triage.intoto.jsonl --key host.pub
  touchstone attest provenance touchstone-0.1.0.provenance.json --key release.pub \\
    touchstone-0.1.0-linux-x86_64.tar.xz";

/// Sign the verdict of a run as in-toto attestations, or verify them offline
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Arguments {
    #[command(subcommand)]
    check: Option<Check>,
    /// Run id; the run must have ended
    #[arg(value_name = "RUN", value_parser = touchstone_runs::cli::run::run_id, required_unless_present = "public_key")]
    run: Option<String>,
    /// Channel whose gate result to include
    #[arg(long)]
    channel: Option<String>,
    /// Print this host's public key for verifying attestations, and attest nothing
    #[arg(long, conflicts_with_all = ["run", "channel"])]
    public_key: bool,
    /// File to write instead of stdout
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Check {
    Verify(verify::Arguments),
    Provenance(provenance::Arguments),
}

impl Arguments {
    pub const fn target(&self) -> CommandTarget {
        match self.check {
            Some(Check::Verify(_) | Check::Provenance(_)) => CommandTarget::Signing,
            None => CommandTarget::Host,
        }
    }
}

#[derive(Deserialize, Serialize)]
struct Attested {
    attestations: Vec<Envelope>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct HostKey {
    key_id: String,
    algorithm: String,
    public_key: String,
}

pub async fn run(context: &Context<'_>, mut arguments: Arguments) -> Result<Exit, Failure> {
    touchstone_runs::cli::run::reference::resolve_all(context, arguments.run.iter_mut().collect())
        .await?;
    match &arguments.check {
        Some(Check::Verify(arguments)) => return verify::run(context, arguments),
        Some(Check::Provenance(arguments)) => return provenance::run(context, arguments),
        None => {}
    }
    // Without a run, the key of the host is asked for, which is created with the store.
    let session = match arguments.run {
        Some(_) => context.read().await?,
        None => context.write().await?,
    };
    let client = session.client();
    let terminal = context.terminal();
    let out = arguments.out.as_deref();
    let Some(run) = &arguments.run else {
        let key: HostKey = client.get("/v1/host/touchstone/attestation-key").await?;
        match out {
            Some(file) => {
                write(file, &key.public_key)?;
                told(context, &json!({"file": file, "keyId": key.key_id}));
            }
            None if terminal.json() => terminal.document(&key),
            None => terminal.print(&key.public_key),
        }
        return Ok(Exit::Good);
    };
    let mut path = format!("/v1/host/touchstone/runs/{run}/attestation");
    if let Some(channel) = &arguments.channel {
        let query = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("channel", channel)
            .finish();
        path.push_str(&format!("?{query}"));
    }
    let attested: Attested = client.get(&path).await?;
    match out {
        Some(file) => {
            let bundle = bundle(&attested).map_err(|cause| Failure::unexpected(&cause))?;
            write(file, &bundle)?;
            let key = attested.attestations.iter().flat_map(|it| &it.signatures);
            let key = key.map(|signature| signature.keyid.as_str()).next();
            told(
                context,
                &json!({"file": file, "keyId": key, "attestations": attested.attestations.len()}),
            );
        }
        None if terminal.json() => terminal.document(&attested),
        None => {
            let bundle = bundle(&attested).map_err(|cause| Failure::unexpected(&cause))?;
            terminal.print(&bundle);
        }
    }
    Ok(Exit::Good)
}

/// The public key in a file.
fn trusted_key(file: &SecretString, remedy: &str) -> Result<PublicKey, Failure> {
    let file = Path::new(file.expose_secret());
    let text = String::from_utf8_lossy(&verify::octets(file)?).into_owned();
    PublicKey::from_text(&text).map_err(|fault| {
        Failure::bad_input("no_public_key", format!("{} {fault}", file.display())).or_try(remedy)
    })
}

/// Reads the run of an attestation that one of the keys signed, as a baseline.
///
/// # Errors
/// The file has no usable attestation, or no signature by one of the keys.
pub fn baseline(bytes: &[u8], keys: &[PublicKey]) -> Result<AttestedRun, Failure> {
    attested_run(bytes, keys).map_err(|cause| match &cause {
        UnusableBaseline::Rejected(Rejected::Unverified(_)) => {
            Failure::bad_input("untrusted_baseline", cause.to_string()).or_try(
                "check that the file was not changed, and that --baseline-key is the key that signed it",
            )
        }
        _ => Failure::bad_input("no_attestation", cause.to_string())
            .or_try("create it with touchstone attest RUN --out FILE.intoto.jsonl"),
    })
}

/// An in-toto bundle: one envelope per line.
fn bundle(attested: &Attested) -> Result<String, serde_json::Error> {
    let lines = attested.attestations.iter();
    lines
        .map(|envelope| Ok(serde_json::to_string(envelope)? + "\n"))
        .collect()
}

fn told(context: &Context<'_>, written: &Value) {
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(written);
        return;
    }
    let text = |member: &str| written.get(member).and_then(Value::as_str).unwrap_or("");
    terminal.print(&format!("{}  key {}", text("file"), text("keyId")));
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text).map_err(|cause| {
        Failure::not_done(
            "file_not_written",
            format!("could not write {}: {cause}", file.display()),
        )
    })
}
