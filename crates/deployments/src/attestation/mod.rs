//! In-toto attestations of an eval run: verdicts that can be verified without the host.
//!
//! There are two statements about the same artifacts, each in its own envelope: the complete
//! verdict ([`PREDICATE_TYPE`], read by [`judge`]), and the in-toto `test-result` for tools that
//! know nothing about evals. Its result is `PASSED` if a strict gate and the gate in force both
//! accept the run. It is `WARNED` for a score whose confidence interval includes the pass score, or
//! for a run that the gate rejects. A run with unjudged tasks has no `test-result`.

pub mod provenance;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use touchstone_kit::hex::hex;
use touchstone_kit::ids::TaskId;
use touchstone_kit::integrity;
use touchstone_kit::json;
use touchstone_kit::keys::{PublicKey, SecretKey};
use touchstone_kit::statistics::GateVerdict;
use touchstone_openwop::dsse::{self, Unverified};
use touchstone_openwop::in_toto::{
    DigestSet, Envelope, ResourceDescriptor, STATEMENT_TYPE, Statement, TEST_RESULT_TYPE,
    TestOutcome, TestResult,
};
use touchstone_openwop::suite::ModelClass;
use touchstone_runs::rules::eval::attempts::Attempt;
use touchstone_runs::rules::eval::comparison::attested::AttestedRun;
use touchstone_runs::rules::eval::comparison::comparable::TaskDigests;
use touchstone_runs::rules::eval::gate::{Candidate, GatePolicy, Unmet, unmet};
use touchstone_runs::rules::eval::report::{EvalReport, TaskOutcome, Verdict};
use touchstone_runs::rules::eval::statistics::{Evidence, EvidenceRun, Statistics, statistics};
use touchstone_runs::rules::kind::Extensions;
use touchstone_runs::rules::run::record::EvalSpec;

/// The `predicateType` of a verdict. The domain is reserved (RFC 2606) and serves only as a name.
pub const PREDICATE_TYPE: &str = "https://touchstone.invalid/attestation/eval-verdict/v1";

/// The predicate: the report without task content, and everything needed to use it as evidence
/// outside this host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EvalVerdict {
    /// The report without people's annotations.
    #[serde(flatten)]
    pub report: EvalReport,
    /// The reports of the other trials of its experiment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further_trials: Vec<EvalReport>,
    /// Number of trials of the experiment that are missing.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missing_trials: usize,
    /// Every attempt of the same agent at the same suite with the same model, in order of creation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// What makes the results of its tasks comparable with those of another run; absent in
    /// attestations of earlier versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub task_digests: BTreeMap<TaskId, TaskDigests>,
    /// The model class that the agent asked for, and the model it got.
    pub model: ResolvedModel,
    /// The attesting host.
    pub host: HostIdentity,
    pub attested_at: Timestamp,
    /// Digest of the summary in its RFC 8785 form.
    pub summary_digest: DigestSet,
    /// Digest of the statistics in their RFC 8785 form.
    pub statistics_digest: DigestSet,
    /// The decision of the host's own gate.
    pub gate: GateDecision,
}

impl EvalVerdict {
    fn evidence(&self) -> Evidence {
        Evidence {
            run: EvidenceRun::of(&self.report),
            further: self.further_trials.iter().map(EvidenceRun::of).collect(),
            missing: self.missing_trials,
            attempts: self.attempts.clone(),
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

/// A model class and the model it resolved to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedModel {
    pub class: ModelClass,
    pub provider: String,
    pub name: String,
}

/// The attesting host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostIdentity {
    /// The name set by its operator, or the fingerprint of its key.
    pub id: String,
    /// The name of the software.
    pub name: String,
    pub version: String,
}

/// The decision of the host's gate at the time of the attestation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateDecision {
    /// The channel whose gate was evaluated, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The policy at that time. For information only: verifiers apply their own policy.
    pub policy: Value,
    /// Whether the evidence meets the policy.
    pub allowed: bool,
    /// The conditions that are not met.
    pub unmet: Vec<Shortfall>,
}

/// A condition that is not met. Its name is a string, because later hosts may have further
/// conditions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortfall {
    pub condition: String,
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

/// The document cannot be written as JSON.
#[derive(Debug, thiserror::Error)]
#[error("the attestation cannot be written")]
pub struct Unwritable(#[from] serde_json::Error);

/// The input for the attestation of an ended run.
pub struct Facts<'a> {
    /// The recorded report, without people's annotations, which the host does not vouch for.
    pub report: EvalReport,
    /// The reports of the other trials of its experiment.
    pub further_trials: Vec<EvalReport>,
    /// Number of trials of the experiment that are missing.
    pub missing_trials: usize,
    /// Every attempt of the same agent, including these runs.
    pub attempts: Vec<Attempt>,
    /// The digests of the tasks that the run planned.
    pub task_digests: BTreeMap<TaskId, TaskDigests>,
    /// The statistics of the run's scores.
    pub statistics: &'a Statistics,
    pub spec: &'a EvalSpec,
    pub host: HostIdentity,
    /// The channel whose gate is evaluated.
    pub channel: Option<String>,
    /// The policy of that gate.
    pub policy: &'a GatePolicy,
    pub at: Timestamp,
}

/// Builds the predicate.
///
/// # Errors
/// [`Unwritable`].
pub fn verdict(facts: Facts<'_>) -> Result<EvalVerdict, Unwritable> {
    let report = facts.report;
    let evidence = Evidence {
        run: EvidenceRun::of(&report),
        further: facts.further_trials.iter().map(EvidenceRun::of).collect(),
        missing: facts.missing_trials,
        attempts: facts.attempts.clone(),
    };
    let unmet = unmet(facts.policy, own(&report), Some(&evidence), facts.at);
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
        task_digests: facts.task_digests,
    })
}

/// The digest of a document in its RFC 8785 form.
fn digest_of(document: &impl Serialize) -> Result<DigestSet, serde_json::Error> {
    let canonical = serde_json_canonicalizer::to_vec(document)?;
    Ok(DigestSet {
        sha256: Some(hex(&Sha256::digest(canonical))),
        ..DigestSet::default()
    })
}

/// The exact version that was evaluated.
fn own(report: &EvalReport) -> Candidate<'_> {
    Candidate {
        agent_id: report.agent.agent_id.as_str(),
        version: &report.agent.version,
        pack_integrity: &report.agent.pack_integrity,
    }
}

/// The signed statements of a verdict.
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
            // The suite is not a subject, because it was not tested.
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

fn scoring_of(report: &EvalReport) -> Option<ResourceDescriptor> {
    let suite = &report.suite;
    let name = format!("{}@{} scoring", suite.suite_id, suite.version);
    suite
        .scoring_digest
        .as_deref()
        .map(|digest| descriptor(name, digest))
}

fn descriptor(name: String, digest: &str) -> ResourceDescriptor {
    ResourceDescriptor {
        name: Some(name),
        uri: None,
        digest: DigestSet {
            sha256: integrity::parse(digest).map(|digest| hex(&digest)),
            ..DigestSet::default()
        },
    }
}

/// `None` for a run without a verdict, and for a trial that does not represent its experiment.
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
        configuration: [Some(suite), scoring_of(report)]
            .into_iter()
            .flatten()
            .collect(),
        passed_tests: named(TaskOutcome::Passed),
        warned_tests: Vec::new(),
        failed_tests: named(TaskOutcome::Failed),
    })
}

/// The result for a run that reached its pass score. A consumer that reads only `PASSED` must not
/// deploy on a score whose confidence interval includes the pass score, nor on a run that the
/// host's own gate rejects, such as a replay, a run of a local command, or a voided run.
fn outcome(verdict: &EvalVerdict) -> TestOutcome {
    // The verdict of an evaluation kind is not an estimate, so it has no confidence interval.
    if verdict.report.extensions != Extensions::default() {
        return TestOutcome::Passed;
    }
    match statistics(&verdict.evidence(), None, None).gate.verdict {
        GateVerdict::Pass if verdict.gate.allowed => TestOutcome::Passed,
        GateVerdict::Pass | GateVerdict::Inconclusive => TestOutcome::Warned,
        GateVerdict::Fail => TestOutcome::Failed,
    }
}

/// Why an envelope is not accepted as a verdict.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// The signature is from another key, or the envelope was changed.
    #[error(transparent)]
    Unverified(#[from] Unverified),
    /// The signature is valid, but the statement is of another kind.
    #[error("it is a different kind of statement: {0}")]
    OtherKind(String),
    /// The signature is valid, but the statement cannot be parsed.
    #[error("its statement cannot be read: {0}")]
    Unreadable(String),
    /// The signature is valid, but the statement contradicts itself.
    #[error("its subject does not match the report in it")]
    Subject,
}

/// Reads a verdict that `key` has signed.
///
/// # Errors
/// [`Rejected`].
pub fn read(envelope: &Envelope, key: &PublicKey) -> Result<EvalVerdict, Rejected> {
    let (subject, verdict): (_, EvalVerdict) = predicate(envelope, key, PREDICATE_TYPE)?;
    let digests: Vec<&DigestSet> = subject.iter().map(|it| &it.digest).collect();
    let expected = [agent_of(&verdict.report), suite_of(&verdict.report)];
    if expected
        .iter()
        .any(|it| it.digest.sha256.is_none() || !digests.contains(&&it.digest))
    {
        return Err(Rejected::Subject);
    }
    Ok(verdict)
}

/// The subjects and the predicate of a statement of this type that `key` has signed.
fn predicate<T: DeserializeOwned>(
    envelope: &Envelope,
    key: &PublicKey,
    predicate_type: &str,
) -> Result<(Vec<ResourceDescriptor>, T), Rejected> {
    let payload = dsse::open(envelope, key)?;
    let unreadable = |fault: String| Rejected::Unreadable(fault);
    let statement: Statement = json::parse_as(&payload)
        .map_err(|fault| unreadable(fault.to_string()))?
        .map_err(|fault| unreadable(fault.to_string()))?;
    if statement.kind != STATEMENT_TYPE {
        return Err(Rejected::OtherKind(statement.kind));
    }
    if statement.predicate_type != predicate_type {
        return Err(Rejected::OtherKind(statement.predicate_type));
    }
    let predicate = serde_json::from_value(statement.predicate)
        .map_err(|fault| unreadable(fault.to_string()))?;
    Ok((statement.subject, predicate))
}

/// Why a file is not accepted as the baseline of a comparison.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusableBaseline {
    #[error("it contains no DSSE envelope")]
    NoEnvelope,
    /// What is wrong with the first verdict, or with the only statement.
    #[error(transparent)]
    Rejected(Rejected),
    #[error("it was attested by an earlier version, without the digests of tasks")]
    NoDigests,
}

/// Reads the run that a bundle attests, if one of the keys signed it.
///
/// # Errors
/// [`UnusableBaseline`].
pub fn attested_run(bytes: &[u8], keys: &[PublicKey]) -> Result<AttestedRun, UnusableBaseline> {
    let mut rejected = None;
    for envelope in envelopes(bytes) {
        for key in keys {
            match read(&envelope, key) {
                Ok(verdict) if verdict.task_digests.is_empty() => {
                    return Err(UnusableBaseline::NoDigests);
                }
                Ok(verdict) => {
                    return Ok(AttestedRun {
                        report: verdict.report,
                        further_trials: verdict.further_trials,
                        missing_trials: verdict.missing_trials,
                        tasks: verdict.task_digests,
                    });
                }
                Err(fault) => {
                    rejected.get_or_insert(fault);
                }
            }
        }
    }
    Err(rejected.map_or(UnusableBaseline::NoEnvelope, UnusableBaseline::Rejected))
}

/// The envelopes of a bundle, of a host's answer, or a single one. Other content is ignored.
pub fn envelopes(bytes: &[u8]) -> Vec<Envelope> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Document {
        One(Envelope),
        Answer { attestations: Vec<Envelope> },
    }
    let read = |bytes: &[u8]| match serde_json::from_slice(bytes) {
        Ok(Document::One(envelope)) => Some(vec![envelope]),
        Ok(Document::Answer { attestations }) => Some(attestations),
        Err(_) => None,
    };
    read(bytes).unwrap_or_else(|| {
        let lines = bytes.split(|octet| *octet == b'\n');
        lines.filter_map(read).flatten().collect()
    })
}

/// The deployment, as described by the caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// The agent's id and version.
    pub agent: Option<(String, String)>,
    /// `sha256-<base64>` of its pack.
    pub pack_integrity: Option<String>,
}

/// Every condition of `policy` that a verdict does not meet, comparing the content to be deployed
/// with what was evaluated.
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
    unmet(policy, candidate, Some(&verdict.evidence()), now)
}
