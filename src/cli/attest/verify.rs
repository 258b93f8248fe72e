//! `touchstone attest verify`: verify an attestation offline and check it against a gate policy.

use std::path::{Path, PathBuf};

use clap::Args;
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::cli::gate::policy::Policy;
use touchstone_deployments::attestation::{
    EvalVerdict, Expected, Rejected, envelopes, judge, read,
};
use touchstone_deployments::cli::deploy::{Subject, subject};
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::files;
use touchstone_host::cli::terminal::Terminal;
use touchstone_host::ports::clock::Clock as _;
use touchstone_host::system::SystemClock;
use touchstone_kit::integrity;
use touchstone_runs::rules::eval::gate::{GatePolicy, Unmet};

/// Maximum size of a file in bytes.
const MAX_OCTETS: u64 = 256 << 20;

const EXAMPLES: &str = "\
Reads files only and contacts no host. Without --policy, the default gate policy applies
(`touchstone gate show`). At least one verdict in the file must meet it; envelopes of other keys
or of other kinds are ignored.

Exit codes: 0 a verdict signed by this key meets the policy, 1 none does, 2 bad input.

Examples:
  touchstone attest verify triage.intoto.jsonl --key host.pub
  touchstone attest verify triage.intoto.jsonl --key host.pub --policy gate.json \\
    --agent vendor.acme.triage.default@1.1.0 --pack vendor.acme.triage-1.1.0.tgz";

/// Verify the signed verdict of a run offline and check it against a gate policy
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// File of `touchstone attest`: an in-toto bundle or a single DSSE envelope
    #[arg(value_name = "FILE")]
    file: PathBuf,
    // Same name and type as the global API key option, which it replaces: this command contacts no
    // host.
    /// Public key file of the trusted host: PEM, or base64 of the 32 bytes
    #[arg(long, value_name = "FILE")]
    key: SecretString,
    /// JSON file with the policy, as for `touchstone gate set --file`; approvals, ratings, agent
    /// cards and OASIS evaluations cannot be required here
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Agent and version that the verdict must be about
    #[arg(long, value_name = "AGENT@VERSION", value_parser = subject)]
    agent: Option<Subject>,
    /// Pack archive that the verdict must be about
    #[arg(long, value_name = "FILE.tgz")]
    pack: Option<PathBuf>,
}

pub fn run(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    let remedy = "run touchstone attest --public-key --out host.pub on the host";
    let key = super::trusted_key(&arguments.key, remedy)?;
    let policy = match &arguments.policy {
        Some(file) => policy(file)?,
        None => GatePolicy::default(),
    };
    let expected = Expected {
        agent: arguments
            .agent
            .as_ref()
            .map(|it| (it.agent.clone(), it.version.to_string())),
        pack_integrity: match &arguments.pack {
            Some(file) => Some(integrity::of(&octets(file)?)),
            None => None,
        },
    };
    let envelopes = envelopes(&octets(&arguments.file)?);
    if envelopes.is_empty() {
        return Err(Failure::bad_input(
            "no_attestation",
            format!("{} contains no DSSE envelope", arguments.file.display()),
        )
        .or_try("create one with touchstone attest RUN --out FILE"));
    }
    let now = SystemClock.now();
    let checked: Vec<Checked> = envelopes
        .iter()
        .filter_map(|envelope| match read(envelope, &key) {
            Ok(verdict) => {
                let unmet = judge(&verdict, &policy, &expected, now);
                Some(Checked::Verdict(Box::new(verdict), unmet))
            }
            // The test result in the same bundle, or a statement of another tool.
            Err(Rejected::OtherKind(_)) => None,
            Err(rejected) => Some(Checked::Rejected(rejected)),
        })
        .collect();
    let good = checked.iter().any(Checked::is_good);
    let terminal = context.terminal();
    if terminal.json() {
        let checked: Vec<Value> = checked.iter().map(Checked::document).collect();
        terminal.document(&json!({
            "ok": good, "keyId": key.fingerprint(), "policy": policy, "attestations": checked,
        }));
    } else {
        for it in &checked {
            it.print(terminal);
        }
        if checked.is_empty() {
            terminal.print(&format!(
                "{} the file contains no verdict",
                terminal.colors().bad("✗")
            ));
        }
    }
    Ok(if good { Exit::Good } else { Exit::Negative })
}

/// The result for one envelope.
enum Checked {
    Verdict(Box<EvalVerdict>, Vec<Unmet>),
    Rejected(Rejected),
}

impl Checked {
    fn is_good(&self) -> bool {
        matches!(self, Self::Verdict(_, unmet) if unmet.is_empty())
    }

    fn document(&self) -> Value {
        match self {
            Self::Verdict(verdict, unmet) => json!({
                "verified": true, "allowed": unmet.is_empty(), "unmet": unmet, "statement": verdict,
            }),
            Self::Rejected(rejected) => {
                json!({"verified": false, "allowed": false, "reason": rejected.to_string()})
            }
        }
    }

    fn print(&self, terminal: &Terminal) {
        let colors = terminal.colors();
        let (verdict, unmet) = match self {
            Self::Verdict(verdict, unmet) => (verdict, unmet),
            Self::Rejected(rejected) => {
                terminal.print(&format!("{} rejected: {rejected}", colors.bad("✗")));
                return;
            }
        };
        let report = &verdict.report;
        let mark = match unmet.as_slice() {
            [] => colors.good("✓"),
            _ => colors.bad("✗"),
        };
        terminal.print(&format!(
            "{mark} {}@{} on {}@{}: score {:.3}, {} of {} tasks passed, {}",
            report.agent.agent_id,
            report.agent.version,
            report.suite.suite_id,
            report.suite.version,
            report.summary.aggregate_score,
            report.summary.passed_count,
            report.summary.task_count,
            verdict.attested_at,
        ));
        if verdict.attempts.len() > 1 {
            terminal.print(&format!(
                "  pooled with all {} runs of the same agent, suite and model",
                verdict.attempts.len()
            ));
        }
        for unmet in unmet {
            terminal.print(&format!("  {}: {}", unmet.condition, unmet.message));
        }
    }
}

fn policy(file: &Path) -> Result<GatePolicy, Failure> {
    let unusable = |cause: String| {
        Failure::bad_input(
            "no_policy",
            format!("{} is not a gate policy: {cause}", file.display()),
        )
        .or_try("use a policy such as {\"eval\": {\"minTasks\": 20}}")
    };
    let policy: Policy =
        serde_json::from_slice(&octets(file)?).map_err(|fault| unusable(fault.to_string()))?;
    policy.check().map_err(unusable)?;
    if policy.approval.is_some() {
        return Err(unusable(
            "it requires approvals, which only a host can check".to_owned(),
        ));
    }
    if policy.rating.is_some() {
        return Err(unusable(
            "it requires a rating, which only a host can check".to_owned(),
        ));
    }
    if policy.agent_card.is_some() {
        return Err(unusable(
            "it requires agent card scores, which only a host can check".to_owned(),
        ));
    }
    if policy.oasis.is_some() {
        return Err(unusable(
            "it requires an OASIS evaluation, which only a host can check".to_owned(),
        ));
    }
    Ok(policy.eval.unwrap_or(GatePolicy::FLOOR))
}

pub fn octets(file: &Path) -> Result<Vec<u8>, Failure> {
    files::read(file, MAX_OCTETS)
}
