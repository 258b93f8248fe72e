//! Signed attestations of runs, for parties that cannot ask this host.

use std::sync::Arc;

use crate::attestation::{Facts, HostIdentity, attest, verdict};
use crate::rules::Placement;
use crate::service::gates::Gates;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::signing_key::{NoSigningKey, SigningKey};
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::RunId;
use touchstone_kit::keys::{PublicKey, SecretKey};
use touchstone_openwop::in_toto::Envelope;
use touchstone_runs::rules::eval::gate::GatePolicy;
use touchstone_runs::rules::eval::report::Verdict;
use touchstone_runs::service::runs::Runs;

/// Maximum number of tasks of an attestation. It is one signed text: the host and every reader hold all
/// of it.
pub const MAX_TASKS: usize = 100_000;

/// The identity that signs attestations.
#[derive(Clone)]
pub struct Attester {
    /// The name the operator gave the host; `None` to use the fingerprint of its key.
    pub host_id: Option<String>,
    /// The key that signs.
    pub key: Arc<dyn SigningKey>,
    /// Maximum number of tasks of an attestation, with those of further trials.
    pub max_tasks: usize,
}

pub struct Attestations {
    runs: Arc<Runs>,
    gates: Arc<Gates>,
    clock: Arc<dyn Clock>,
    attester: Attester,
}

impl Attestations {
    pub fn new(
        runs: Arc<Runs>,
        gates: Arc<Gates>,
        clock: Arc<dyn Clock>,
        attester: Attester,
    ) -> Self {
        Self {
            runs,
            gates,
            clock,
            attester,
        }
    }

    /// The public key that verifies this host's attestations.
    ///
    /// # Errors
    /// `capability_not_provided` if the host has no key.
    pub fn public_key(&self) -> Result<PublicKey, Problem> {
        Ok(self.key()?.public())
    }

    /// The attestations of a finished run, with the current result of the gate in force on
    /// `channel`.
    ///
    /// # Errors
    /// `not_found`; `conflict` before the run has ended, and if it and its further trials have too many tasks;
    /// `validation_error` for a channel this host does not have; `capability_not_provided` if the
    /// host has no key.
    pub async fn attest(
        &self,
        caller: &Caller,
        run: &RunId,
        channel: Option<&str>,
    ) -> Result<Vec<Envelope>, Problem> {
        let tasks = self
            .runs
            .with_eval_state(&caller.tenant, run, |spec, _| spec.tasks.len());
        let tasks = tasks.await?;
        self.check_size(tasks)?;
        let (mut report, spec) = self.runs.recorded(&caller.tenant, run).await?;
        if report.verdict == Verdict::Pending {
            return Err(Problem::new(
                ErrorCode::Conflict,
                "the eval run has not ended; attest it once it has",
            ));
        }
        self.gates.check_channel(channel)?;
        let key = self.key()?;
        let statistics = self.runs.statistics(&caller.tenant, run).await?;
        let evidence = self.runs.pooled_evidence(&caller.tenant, run).await?;
        // Trials have the same suite.
        self.check_size(tasks.saturating_mul(1 + evidence.further.len()))?;
        // The judge's agreement with people is this host's own measurement, and gates require it.
        report.judge.clone_from(&evidence.run.report.judge);
        let mut further_trials = Vec::new();
        for trial in evidence.further {
            let trial = trial.report;
            let (mut recorded, _) = self.runs.recorded(&caller.tenant, &trial.run_id).await?;
            recorded.judge = trial.judge;
            further_trials.push(recorded);
        }
        let placement = Placement::new(channel.and_then(|name| name.parse().ok()), None);
        let in_force = self
            .gates
            .in_force(&caller.tenant, &report.agent.agent_id, &[placement])
            .await?;
        // A gate without an eval requirement still refuses a run that is not an eval run.
        let asked = in_force.into_iter().find_map(|it| it.policy.eval);
        let policy = asked.unwrap_or(GatePolicy::FLOOR);
        let id = self.attester.host_id.clone();
        let host = HostIdentity {
            id: id.unwrap_or_else(|| key.public().fingerprint()),
            name: "touchstone".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let verdict = verdict(Facts {
            report,
            further_trials,
            missing_trials: evidence.missing,
            attempts: evidence.attempts,
            task_digests: self.runs.task_digests(&spec).await?,
            statistics: &statistics,
            spec: &spec,
            host,
            channel: channel.map(str::to_owned),
            policy: &policy,
            at: self.clock.now(),
        });
        verdict
            .and_then(|verdict| attest(&verdict, &key))
            .map_err(|cause| internal(&cause))
    }

    /// # Errors
    /// `conflict` above the maximum number of tasks.
    fn check_size(&self, tasks: usize) -> Result<(), Problem> {
        let most = self.attester.max_tasks;
        if tasks <= most {
            return Ok(());
        }
        Err(Problem::new(
            ErrorCode::Conflict,
            format!(
                "the run and its further trials have {tasks} tasks, and an attestation can have at most \
                 {most}; evaluate the suite in several runs with a part of its tasks each, and attest these"
            ),
        ))
    }

    fn key(&self) -> Result<Arc<SecretKey>, Problem> {
        self.attester.key.key().map_err(|cause| match cause {
            NoSigningKey::NotConfigured => Problem::new(
                ErrorCode::CapabilityNotProvided,
                "this host has no signing key; the operator sets one with `attest.key_file`",
            ),
            NoSigningKey::Unusable(_) => internal(&cause),
        })
    }
}
