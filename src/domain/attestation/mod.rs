//! Verdicts that can be checked without the host: in-toto attestations of an eval run.
//!
//! Two statements about the same artifacts, each in an envelope of its own: the verdict in full ([`PREDICATE_TYPE`], what
//! [`judge`] reads), and the in-toto `test-result` for tools that know nothing of evals. Its `PASSED` is what a strict gate and
//! the gate in force accept; a score that reaches the bar within the range of chance, or in a run that the gate refuses, is
//! `WARNED`, and a run with unjudged tasks has none.

pub mod dsse;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use self::dsse::Unverified;
use crate::domain::eval::attempts::Attempt;
use crate::domain::eval::gate::{Candidate, GatePolicy, Unmet, unmet};
use crate::domain::eval::report::{EvalReport, TaskOutcome, Verdict};
use crate::domain::eval::statistics::{Evidence, Statistics, statistics};
use crate::domain::hex::hex;
use crate::domain::pack::integrity;
use crate::domain::pack::keys::{PublicKey, SecretKey};
use crate::domain::run::record::EvalSpec;
use crate::domain::statistics::GateVerdict;
use crate::protocol::in_toto::{
    DigestSet, Envelope, ResourceDescriptor, STATEMENT_TYPE, Statement, TEST_RESULT_TYPE,
    TestOutcome, TestResult,
};
use crate::protocol::json;
use crate::protocol::openwop::suite::ModelClass;

/// `predicateType` of a verdict. The domain is one that nobody can ever own (RFC 2606): it names, and leads nowhere.
pub const PREDICATE_TYPE: &str = "https://touchstone.invalid/attestation/eval-verdict/v1";

/// The predicate: the report, free of content, and what makes it evidence elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvalVerdict {
    /// The report, without what people wrote beside it.
    #[serde(flatten)]
    pub report: EvalReport,
    /// The reports of the other trials of its experiment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further_trials: Vec<EvalReport>,
    /// Trials of the experiment that were not there.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missing_trials: usize,
    /// Every attempt of the same agent at the same suite with the same model, in order of creation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// The model the agent asked for, and the one it was given.
    pub model: ResolvedModel,
    /// Who says so.
    pub host: HostIdentity,
    /// When it was said.
    pub attested_at: Timestamp,
    /// Of the summary as RFC 8785 has it written.
    pub summary_digest: DigestSet,
    /// Of the statistics, likewise.
    pub statistics_digest: DigestSet,
    /// What the host's own gate made of it.
    pub gate: GateDecision,
}

impl EvalVerdict {
    fn evidence(&self) -> Evidence<'_> {
        Evidence {
            run: &self.report,
            further: &self.further_trials,
            missing: self.missing_trials,
            attempts: &self.attempts,
        }
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// A class of models and what it stood for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedModel {
    /// The class the agent asks for.
    pub class: ModelClass,
    /// Provider.
    pub provider: String,
    /// Model.
    pub name: String,
}

/// Who attests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostIdentity {
    /// The name its operator gave it, or the fingerprint of its key.
    pub id: String,
    /// The software.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// What the host's gate made of the run when it was attested.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateDecision {
    /// The channel that was asked about, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// What was demanded, as it stood. Only for the record: whoever verifies has a policy of their own.
    pub policy: Value,
    /// Whether the evidence meets it.
    pub allowed: bool,
    /// What it does not meet.
    pub unmet: Vec<Shortfall>,
}

/// A condition that was not met. Its name is text: a later host may know further ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortfall {
    /// The condition's name.
    pub condition: String,
    /// In words.
    pub message: String,
}

impl From<&Unmet> for Shortfall {
    fn from(unmet: &Unmet) -> Self {
        Self {
            condition: unmet.condition.to_string(),
            message: unmet.message.clone(),
        }
    }
}

/// Something that cannot be written as JSON.
#[derive(Debug, thiserror::Error)]
#[error("the attestation cannot be written")]
pub struct Unwritable(#[from] serde_json::Error);

/// What goes into an attestation of a run that has ended.
pub struct Facts<'a> {
    /// Its report as it was recorded: what people wrote beside it is not the host's to vouch for.
    pub report: EvalReport,
    /// Those of the other trials of its experiment.
    pub further_trials: Vec<EvalReport>,
    /// Trials of the experiment that are not there.
    pub missing_trials: usize,
    /// Every attempt of the same agent, these runs included.
    pub attempts: Vec<Attempt>,
    /// What its scores say.
    pub statistics: &'a Statistics,
    /// What it was asked to do.
    pub spec: &'a EvalSpec,
    /// Who attests.
    pub host: HostIdentity,
    /// The channel its gate is asked about.
    pub channel: Option<String>,
    /// What that gate demands.
    pub policy: &'a GatePolicy,
    /// Now.
    pub at: Timestamp,
}

/// Puts the predicate together.
///
/// # Errors
/// [`Unwritable`].
pub fn verdict(facts: Facts<'_>) -> Result<EvalVerdict, Unwritable> {
    let report = facts.report;
    let evidence = Evidence {
        run: &report,
        further: &facts.further_trials,
        missing: facts.missing_trials,
        attempts: &facts.attempts,
    };
    let unmet = unmet(facts.policy, own(&report), Some(evidence), facts.at);
    Ok(EvalVerdict {
        model: ResolvedModel {
            class: facts.spec.model_class,
            provider: facts.spec.model.provider.clone(),
            name: facts.spec.model.model.clone(),
        },
        host: facts.host,
        attested_at: facts.at,
        summary_digest: digest_of(&report.summary)?,
        statistics_digest: digest_of(facts.statistics)?,
        gate: GateDecision {
            channel: facts.channel,
            policy: serde_json::to_value(facts.policy)?,
            allowed: unmet.is_empty(),
            unmet: unmet.iter().map(Shortfall::from).collect(),
        },
        report,
        further_trials: facts.further_trials,
        missing_trials: facts.missing_trials,
        attempts: facts.attempts,
    })
}

/// The digest of a document as RFC 8785 has it written.
fn digest_of(document: &impl Serialize) -> Result<DigestSet, serde_json::Error> {
    let canonical = serde_json_canonicalizer::to_vec(document)?;
    Ok(DigestSet {
        sha256: Some(hex(&Sha256::digest(canonical))),
    })
}

/// The very version that was evaluated.
fn own(report: &EvalReport) -> Candidate<'_> {
    Candidate {
        agent_id: report.agent.agent_id.as_str(),
        version: &report.agent.version,
        pack_integrity: &report.agent.pack_integrity,
    }
}

/// The statements of a verdict, signed.
///
/// # Errors
/// [`Unwritable`].
pub fn attest(verdict: &EvalVerdict, key: &SecretKey) -> Result<Vec<Envelope>, Unwritable> {
    let (agent, suite) = (agent_of(&verdict.report), suite_of(&verdict.report));
    let mut statements = vec![Statement {
        kind: STATEMENT_TYPE.to_owned(),
        subject: vec![agent.clone(), suite.clone()],
        predicate_type: PREDICATE_TYPE.to_owned(),
        predicate: serde_json::to_value(verdict)?,
    }];
    if let Some(result) = test_result(verdict, suite) {
        statements.push(Statement {
            kind: STATEMENT_TYPE.to_owned(),
            // The suite was not tested; it is by what was tested.
            subject: vec![agent],
            predicate_type: TEST_RESULT_TYPE.to_owned(),
            predicate: serde_json::to_value(result)?,
        });
    }
    statements
        .iter()
        .map(|statement| Ok(dsse::seal(&serde_json::to_vec(statement)?, key)))
        .collect()
}

fn agent_of(report: &EvalReport) -> ResourceDescriptor {
    let agent = &report.agent;
    descriptor(
        format!("{}@{}", agent.agent_id, agent.version),
        &agent.pack_integrity,
    )
}

fn suite_of(report: &EvalReport) -> ResourceDescriptor {
    let suite = &report.suite;
    descriptor(
        format!("{}@{}", suite.suite_id, suite.version),
        &suite.digest,
    )
}

fn descriptor(name: String, digest: &str) -> ResourceDescriptor {
    ResourceDescriptor {
        name: Some(name),
        digest: DigestSet {
            sha256: integrity::parse(digest).map(|digest| hex(&digest)),
        },
    }
}

/// `None` of a run that came to no verdict, and of a trial that does not speak for its experiment.
fn test_result(verdict: &EvalVerdict, suite: ResourceDescriptor) -> Option<TestResult> {
    let report = &verdict.report;
    let others = &verdict.further_trials;
    if verdict.missing_trials > 0 || others.iter().any(|it| it.verdict != report.verdict) {
        return None;
    }
    let result = match report.verdict {
        Verdict::Pass => outcome(verdict),
        Verdict::Fail => TestOutcome::Failed,
        Verdict::Inconclusive | Verdict::Pending => return None,
    };
    let named = |outcome: TaskOutcome| {
        let of = report.tasks.iter().filter(|task| task.outcome == outcome);
        of.map(|task| task.task_id.to_string()).collect()
    };
    Some(TestResult {
        result,
        configuration: vec![suite],
        passed_tests: named(TaskOutcome::Passed),
        warned_tests: Vec::new(),
        failed_tests: named(TaskOutcome::Failed),
    })
}

/// What a run that reached its bar has shown. A consumer that reads nothing but `PASSED` must not deploy on a score that chance
/// explains, nor on a run that the host's own gate refuses: a replay, a local command, one that was declared void.
fn outcome(verdict: &EvalVerdict) -> TestOutcome {
    // An OASIS verdict is not an estimate.
    if verdict.report.oasis.is_some() {
        return TestOutcome::Passed;
    }
    match statistics(verdict.evidence(), None, None).gate.verdict {
        GateVerdict::Pass if verdict.gate.allowed => TestOutcome::Passed,
        GateVerdict::Pass | GateVerdict::Inconclusive => TestOutcome::Warned,
        GateVerdict::Fail => TestOutcome::Failed,
    }
}

/// Why an envelope is no verdict to rely on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// It was signed by somebody else, or changed.
    #[error(transparent)]
    Unverified(#[from] Unverified),
    /// Signed, and something else.
    #[error("it is a different kind of statement: {0}")]
    OtherKind(String),
    /// Signed, and not understood.
    #[error("its statement cannot be read: {0}")]
    Unreadable(String),
    /// Signed, and at odds with itself.
    #[error("its subject does not match the report in it")]
    Subject,
}

/// Reads a verdict that `key` has signed.
///
/// # Errors
/// [`Rejected`].
pub fn read(envelope: &Envelope, key: &PublicKey) -> Result<EvalVerdict, Rejected> {
    let payload = dsse::open(envelope, key)?;
    let unreadable = |fault: String| Rejected::Unreadable(fault);
    let statement: Statement = json::parse_as(&payload)
        .map_err(|fault| unreadable(fault.to_string()))?
        .map_err(|fault| unreadable(fault.to_string()))?;
    if statement.kind != STATEMENT_TYPE {
        return Err(Rejected::OtherKind(statement.kind));
    }
    if statement.predicate_type != PREDICATE_TYPE {
        return Err(Rejected::OtherKind(statement.predicate_type));
    }
    let verdict: EvalVerdict = serde_json::from_value(statement.predicate)
        .map_err(|fault| unreadable(fault.to_string()))?;
    let digests: Vec<&DigestSet> = statement.subject.iter().map(|it| &it.digest).collect();
    let expected = [agent_of(&verdict.report), suite_of(&verdict.report)];
    if expected
        .iter()
        .any(|it| it.digest.sha256.is_none() || !digests.contains(&&it.digest))
    {
        return Err(Rejected::Subject);
    }
    Ok(verdict)
}

/// What somebody is about to deploy, as far as they say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// The agent and its version.
    pub agent: Option<(String, String)>,
    /// `sha256-<base64>` of its pack.
    pub pack_integrity: Option<String>,
}

/// Every condition of `policy` that a verdict does not meet, with what is about to be deployed in place of what was evaluated.
pub fn judge(
    verdict: &EvalVerdict,
    policy: &GatePolicy,
    expected: &Expected,
    now: Timestamp,
) -> Vec<Unmet> {
    let own = own(&verdict.report);
    let candidate = Candidate {
        agent_id: expected.agent.as_ref().map_or(own.agent_id, |it| &it.0),
        version: expected.agent.as_ref().map_or(own.version, |it| &it.1),
        pack_integrity: expected
            .pack_integrity
            .as_deref()
            .unwrap_or(own.pack_integrity),
    };
    unmet(policy, candidate, Some(verdict.evidence()), now)
}
