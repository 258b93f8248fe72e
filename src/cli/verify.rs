//! `touchstone verify`: an attestation checked without any host, and held to a gate policy.

use std::path::{Path, PathBuf};

use clap::Args;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

use super::context::Context;
use super::deploy::{Subject, subject};
use super::exit::{Exit, Failure};
use super::files;
use super::terminal::Terminal;
use crate::domain::attestation::{EvalVerdict, Expected, Rejected, judge, read};
use crate::domain::eval::gate::{GatePolicy, Unmet};
use crate::domain::pack::integrity;
use crate::domain::pack::keys::PublicKey;
use crate::domain::promotion::PromotionPolicy;
use crate::ports::Clock as _;
use crate::protocol::in_toto::Envelope;
use crate::system::SystemClock;

/// Octets of a file that are read.
const MAX_OCTETS: u64 = 256 << 20;

const EXAMPLES: &str = "\
Looks at files only: no host is asked. Without --policy the default of gates holds (`touchstone gate show`). Of several
verdicts in the file one has to hold; whatever is not this key's or is no verdict counts for nothing.

Exit codes: 0 a verdict of this key meets the policy, 1 none does, 2 bad input.

Examples:
  touchstone verify triage.intoto.jsonl --key host.pub
  touchstone verify triage.intoto.jsonl --key host.pub --policy gate.json \\
    --agent vendor.acme.triage.default@1.1.0 --pack vendor.acme.triage-1.1.0.tgz";

/// Check a signed verdict offline, and hold it to a gate policy
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// What `touchstone attest` wrote: an in-toto bundle, or a single DSSE envelope
    #[arg(value_name = "FILE")]
    file: PathBuf,
    // The same name and type as the API key of `--server`, whose place it takes: nothing is asked of a host here.
    /// The public key of the host that is trusted, PEM, or base64 of its 32 octets
    #[arg(long, value_name = "FILE")]
    key: SecretString,
    /// The policy, JSON, as `touchstone gate set --file` takes it; approvals, ratings, agent cards and
    /// OASIS evaluations cannot be asked for here
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// What is about to be deployed must be this agent and version
    #[arg(long, value_name = "AGENT@VERSION", value_parser = subject)]
    agent: Option<Subject>,
    /// What is about to be deployed must be this archive
    #[arg(long, value_name = "FILE.tgz")]
    pack: Option<PathBuf>,
}

/// Runs the command.
pub fn run(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    let key_file = Path::new(arguments.key.expose_secret());
    let text = String::from_utf8_lossy(&octets(key_file)?).into_owned();
    let key = PublicKey::from_text(&text).map_err(|fault| {
        Failure::bad_input("no_public_key", format!("{} {fault}", key_file.display()))
            .or_try("touchstone attest --public-key --out host.pub, on the host")
    })?;
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
            format!("{} holds no DSSE envelope", arguments.file.display()),
        )
        .or_try("touchstone attest RUN --out FILE"));
    }
    let now = SystemClock.now();
    let checked: Vec<Checked> = envelopes
        .iter()
        .filter_map(|envelope| match read(envelope, &key) {
            Ok(verdict) => {
                let unmet = judge(&verdict, &policy, &expected, now);
                Some(Checked::Verdict(Box::new(verdict), unmet))
            }
            // The test result beside it, or another's statement.
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
                "{} the file holds no verdict",
                terminal.ink().bad("✗")
            ));
        }
    }
    Ok(if good { Exit::Good } else { Exit::Negative })
}

/// What came of one envelope.
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
        let ink = terminal.ink();
        let (verdict, unmet) = match self {
            Self::Verdict(verdict, unmet) => (verdict, unmet),
            Self::Rejected(rejected) => {
                terminal.print(&format!("{} not believed: {rejected}", ink.bad("✗")));
                return;
            }
        };
        let report = &verdict.report;
        let mark = match unmet.as_slice() {
            [] => ink.good("✓"),
            _ => ink.bad("✗"),
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
                "  judged together with all {} runs of the same agent, suite and model",
                verdict.attempts.len()
            ));
        }
        for unmet in unmet {
            terminal.print(&format!("  {}: {}", unmet.condition, unmet.message));
        }
    }
}

/// The envelopes of a bundle, of a host's answer, or a single one. What is none of these is somebody else's, and ignored.
fn envelopes(octets: &[u8]) -> Vec<Envelope> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Document {
        One(Envelope),
        Answer { attestations: Vec<Envelope> },
    }
    let read = |octets: &[u8]| match serde_json::from_slice(octets) {
        Ok(Document::One(envelope)) => Some(vec![envelope]),
        Ok(Document::Answer { attestations }) => Some(attestations),
        Err(_) => None,
    };
    read(octets).unwrap_or_else(|| {
        let lines = octets.split(|octet| *octet == b'\n');
        lines.filter_map(read).flatten().collect()
    })
}

fn policy(file: &Path) -> Result<GatePolicy, Failure> {
    let unusable = |cause: String| {
        Failure::bad_input(
            "no_policy",
            format!("{} is no policy: {cause}", file.display()),
        )
        .or_try("write one such as {\"eval\": {\"minTasks\": 20}}")
    };
    let policy: PromotionPolicy =
        serde_json::from_slice(&octets(file)?).map_err(|fault| unusable(fault.to_string()))?;
    policy
        .check()
        .map_err(|fault| unusable(fault.to_string()))?;
    if policy.approval.is_some() {
        return Err(unusable(
            "it asks for approvals, and only a host can say who has approved".to_owned(),
        ));
    }
    if policy.rating.is_some() {
        return Err(unusable(
            "it asks for a rating, and only a host knows those".to_owned(),
        ));
    }
    if policy.agent_card.is_some() {
        return Err(unusable(
            "it asks for the scores of an agent card, and only a host keeps those".to_owned(),
        ));
    }
    if policy.oasis.is_some() {
        return Err(unusable(
            "it asks for an OASIS evaluation, and only a host has those".to_owned(),
        ));
    }
    Ok(policy.eval.unwrap_or(GatePolicy::FLOOR))
}

fn octets(file: &Path) -> Result<Vec<u8>, Failure> {
    files::read(file, MAX_OCTETS)
}
