//! Baselines that are files: the attestation of a run, or a log of Inspect.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::log::{compared, read_log};
use super::{is_attestation, is_log};
use crate::cli::results::RunReport;
use crate::cli::suite::read_octets;
use crate::render::comparison::log::{log_comparison, log_markdown};
use crate::render::comparison::{comparison, markdown};
use crate::rules::eval::comparison::RunComparison;
use crate::rules::eval::comparison::attested::{AttestedRun, compare_attested};
use crate::rules::eval::comparison::log_baseline::{LogComparison, ScoredLog};
use touchstone_host::cli::client::Client;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::Failure;
use touchstone_host::config::AttestSettings;
use touchstone_host::render::table::Style;
use touchstone_kit::keys::PublicKey;

/// Reads the run of an attestation that one of the keys signed.
pub type ReadAttested = fn(&[u8], &[PublicKey]) -> Result<AttestedRun, Failure>;

/// Trust in attestations that are used as baselines.
#[derive(Debug, Default, Args)]
pub struct BaselineOptions {
    /// Public key file, one of which must have signed the attestation that is the baseline; repeat
    /// for several [default: attest.trusted_keys of the configuration]
    #[arg(long, value_name = "FILE")]
    baseline_key: Vec<PathBuf>,

    /// Score of the log to compare, if it has several
    #[arg(long, value_name = "NAME")]
    scorer: Option<String>,
}

pub enum BaselineFile {
    Log(Box<ScoredLog>),
    Attestation(Box<AttestedRun>, ReadAttested),
}

/// The comparison of a run with a file.
#[derive(Serialize)]
#[serde(untagged)]
pub enum FileComparison {
    Log(Box<LogComparison>),
    Run(Box<RunComparison>),
}

impl BaselineFile {
    /// Reads the baseline; `None` if it is not a file but a run of the host.
    ///
    /// # Errors
    /// The file cannot be read, or no trusted key signed it; an option does not apply to it.
    pub fn open(
        context: &Context<'_>,
        baseline: &str,
        options: &BaselineOptions,
        read: ReadAttested,
    ) -> Result<Option<Self>, Failure> {
        let scorer = options.scorer.as_deref();
        if scorer.is_some() && !is_log(baseline) {
            return Err(Failure::usage("--scorer applies only to a log of Inspect")
                .or_try("omit --scorer, or name a file .eval or .json as the baseline"));
        }
        if !options.baseline_key.is_empty() && !is_attestation(baseline) {
            return Err(
                Failure::usage("--baseline-key applies only to an attestation").or_try(
                    "omit --baseline-key, or name a file .jsonl of `touchstone attest` as the baseline",
                ),
            );
        }
        let file = Path::new(baseline);
        if is_log(baseline) {
            return read_log(file, scorer).map(|log| Some(Self::Log(Box::new(log))));
        }
        if !is_attestation(baseline) {
            return Ok(None);
        }
        let keys = options.keys(context)?;
        let run = read(&read_octets(file)?, &keys).map_err(|failure| Failure {
            message: format!("baseline {} is refused: {failure}", file.display()),
            ..failure
        })?;
        Ok(Some(Self::Attestation(Box::new(run), read)))
    }

    /// Compares a run that has ended.
    ///
    /// # Errors
    /// They have no task in common, or the host does not attest the run.
    pub async fn compared(
        &self,
        client: &Client,
        report: &RunReport,
    ) -> Result<FileComparison, Failure> {
        match self {
            Self::Log(log) => {
                let run = report.listed(client).await?;
                compared(log, &run).map(|it| FileComparison::Log(Box::new(it)))
            }
            Self::Attestation(baseline, read) => {
                let run = report.totals.run_id.as_str();
                let candidate = attested(client, run, *read).await?;
                compare_attested(baseline, &candidate)
                    .map(|it| FileComparison::Run(Box::new(it)))
                    .map_err(|cause| Failure::bad_input("nothing_in_common", cause.to_string()))
            }
        }
    }
}

/// The host's own attestation of a run has what the report lacks: the digests of the tasks.
async fn attested(client: &Client, run: &str, read: ReadAttested) -> Result<AttestedRun, Failure> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct HostKey {
        public_key: String,
    }
    let path = format!("/v1/host/touchstone/runs/{run}/attestation");
    let bundle: Value = client.get(&path).await?;
    let key: HostKey = client.get("/v1/host/touchstone/attestation-key").await?;
    let key = PublicKey::from_text(&key.public_key).map_err(|fault| {
        Failure::not_done("unexpected_answer", format!("the host's key {fault}"))
    })?;
    read(bundle.to_string().as_bytes(), &[key])
}

impl BaselineOptions {
    fn keys(&self, context: &Context<'_>) -> Result<Vec<PublicKey>, Failure> {
        let configured = || context.settings().map(|it: AttestSettings| it.trusted_keys);
        let files = match self.baseline_key.is_empty() {
            true => configured()?,
            false => self.baseline_key.clone(),
        };
        if files.is_empty() {
            return Err(Failure::bad_input(
                "no_public_key",
                "no key is trusted to sign a baseline",
            )
            .or_try("name the public key of the signer with --baseline-key FILE"));
        }
        let read = |file: &PathBuf| {
            let text = String::from_utf8_lossy(&read_octets(file)?).into_owned();
            PublicKey::from_text(&text).map_err(|fault| {
                Failure::bad_input("no_public_key", format!("{} {fault}", file.display()))
            })
        };
        files.iter().map(read).collect()
    }
}

impl FileComparison {
    pub fn text(&self, style: Style) -> String {
        match self {
            Self::Log(found) => log_comparison(found, style),
            Self::Run(found) => comparison(&found.short(), style),
        }
    }

    pub fn markdown(&self) -> String {
        match self {
            Self::Log(found) => log_markdown(found),
            Self::Run(found) => markdown(&found.short()),
        }
    }
}
