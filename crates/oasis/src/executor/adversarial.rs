//! The adversarial phase (OASIS Adv; OASIS.md section 11): after a PASS, probes run one at a time.
//! They change no verdict, and a provider fault ends only this phase (D26).

use std::sync::Arc;

use tracing::error;

use crate::executor::evaluation::Evaluation;
use crate::executor::execution::{Executed, HOST_FAULT, Script};
use crate::executor::sink::Recorded;
use crate::rules::outcome::Outcome;
use crate::rules::probes;
use crate::rules::probes::{ProbeOrigin, ProbeScript};
use crate::rules::request::Phases;
use crate::rules::run::events::{OasisEvent, OasisProbe};
use crate::rules::run::facts::OasisFacts;
use crate::rules::stored::{StoredEvidence, StoredProbe};
use crate::rules::verdict::{
    AdversarialResults, ProbeResult, ReservedOutcome, ReservedResult, Status, judge,
    measured_deviation, phase_1,
};
use touchstone_kit::ids::TaskId;
use touchstone_openwop::events::NewEvent;
use touchstone_packs::store as pack_store;
use touchstone_runs::service::executor::control::{RunSignals, Stop};
use touchstone_runs::service::executor::eval::record::close_open_invocation;
use touchstone_runs::service::executor::task_loop::{EarlyEnd, WorkUnit};

impl Evaluation {
    /// The probes of the run, in order; the result is always the same. Empty if none were
    /// requested, or if the two phases did not end with a PASS.
    pub(super) async fn probes(&self) -> Result<Vec<ProbeScript>, EarlyEnd> {
        let Some(request) = self.oasis.request.adversarial.clone() else {
            return Ok(Vec::new());
        };
        if !self.has_passed() {
            return Ok(Vec::new());
        }
        let red_team = match &request.red_team_digest {
            None => None,
            Some(digest) => match pack_store::blobs::get(&self.executor.store, digest).await {
                Ok(bytes) => bytes.map(|it| String::from_utf8_lossy(&it).into_owned()),
                Err(cause) => {
                    error!(run_id = %self.context.run.run_id, %cause, "could not read the red team's probes");
                    return Err(Stop::Lost.into());
                }
            },
        };
        let (package, plan) = (self.package.clone(), self.plan.clone());
        // Generating a thousand probes takes seconds.
        let generating = tokio::task::spawn_blocking(move || {
            probes::scripts(&package, &plan, &request, red_team.as_deref())
        });
        match generating.await {
            // The file was valid when the run was created. If a later version rejects it, no probes
            // run.
            Ok(scripts) => Ok(scripts.unwrap_or_default()),
            Err(cause) => {
                error!(run_id = %self.context.run.run_id, %cause, "could not generate the probes");
                Ok(Vec::new())
            }
        }
    }

    fn has_passed(&self) -> bool {
        self.oasis.request.phases == Phases::Both
            && phase_1(&self.plan, &self.results()) == Some(Status::Pass)
            && !self.has_fault()
    }

    /// Executes the probes that have not been executed yet.
    pub(super) async fn run_probes(
        self: &Arc<Self>,
        scripts: &Arc<Vec<ProbeScript>>,
        signals: &mut RunSignals,
    ) -> Result<(), EarlyEnd> {
        if self.facts().verdict.is_some() {
            return Ok(());
        }
        let mut numbers = (1..).zip(0..scripts.len());
        let next = || {
            let facts = self.facts();
            let is_fault = |probe: &OasisProbe| matches!(probe.outcome, Outcome::Fault { .. });
            if facts.probes.iter().any(is_fault) {
                return None;
            }
            let is_executed = |number: u32| facts.probes.iter().any(|it| it.number == number);
            let (number, index) = numbers.find(|(number, _)| !is_executed(*number))?;
            Some(ProbeRun {
                evaluation: self.clone(),
                scripts: scripts.clone(),
                index,
                number,
            })
        };
        let executor = &self.executor;
        executor.run_units(&self.context, 1, signals, next).await
    }

    /// Executes a probe. Anything that would end a run ends only this phase; earlier results stay
    /// valid.
    async fn execute_probe(
        &self,
        name: &str,
        task: &TaskId,
        script: &ProbeScript,
    ) -> Result<Executed, EarlyEnd> {
        let executed = self.execute(Script {
            scenario: &script.scenario,
            name,
            task,
            recorded: match script.origin {
                ProbeOrigin::Reserved => Recorded::CostsOnly,
                ProbeOrigin::Mutation | ProbeOrigin::RedTeam => Recorded::InFull,
            },
            is_probe: true,
        });
        match executed.await {
            Err(EarlyEnd::BudgetExhausted(_)) => {
                Ok(Executed::failed("the run's budget is exhausted"))
            }
            ended => ended,
        }
    }

    async fn store_probe(
        &self,
        name: &str,
        script: &ProbeScript,
        executed: &Executed,
    ) -> Result<String, EarlyEnd> {
        let kept = StoredEvidence {
            scenario_id: name.to_owned(),
            execution: executed.execution.clone(),
            snapshot: executed.snapshot.clone(),
            data: executed.data.clone(),
            probe: Some(StoredProbe {
                description: script.description.clone(),
                primary_archetype: script.scenario.descriptor.archetype.clone(),
                secondary_archetypes: script.secondary_archetypes.clone(),
                serialized: script.serialized.clone(),
            }),
        };
        self.store_evidence(&kept).await
    }
}

/// A probe to execute.
struct ProbeRun {
    evaluation: Arc<Evaluation>,
    scripts: Arc<Vec<ProbeScript>>,
    index: usize,
    /// The number in the log, from 1.
    number: u32,
}

impl WorkUnit for ProbeRun {
    async fn execute(&self) -> Result<(), EarlyEnd> {
        let (evaluation, script) = (&self.evaluation, self.script()?);
        let name = OasisFacts::probe_name(self.number);
        let task = TaskId::from(name.clone());
        close_open_invocation(&evaluation.context, &task);
        let executed = evaluation.execute_probe(&name, &task, script).await?;
        self.record(&name, script, executed).await
    }

    async fn record_panic(&self) -> Result<(), EarlyEnd> {
        let name = OasisFacts::probe_name(self.number);
        let run_id = &self.evaluation.context.run.run_id;
        error!(%run_id, probe = name, "a probe panicked");
        self.evaluation.tear_down(&name).await;
        let executed = Executed::failed(HOST_FAULT);
        self.record(&name, self.script()?, executed).await
    }
}

impl ProbeRun {
    fn script(&self) -> Result<&ProbeScript, Stop> {
        self.scripts.get(self.index).ok_or(Stop::Lost)
    }

    async fn record(
        &self,
        name: &str,
        script: &ProbeScript,
        executed: Executed,
    ) -> Result<(), EarlyEnd> {
        let is_reserved = script.origin == ProbeOrigin::Reserved;
        let evidence = match is_reserved {
            true => None,
            false => Some(self.evaluation.store_probe(name, script, &executed).await?),
        };
        let probe = OasisProbe {
            number: self.number,
            origin: script.origin,
            classification: script.scenario.descriptor.classification,
            passed: passed(&executed.outcome, script),
            outcome: match (is_reserved, executed.outcome) {
                // The band would reveal the content of the scenario.
                (true, Outcome::Capability { score, .. }) => {
                    let band = None;
                    Outcome::Capability { score, band }
                }
                (_, outcome) => outcome,
            },
            evidence,
        };
        let event = NewEvent::of_run(OasisEvent::Probe(probe).into());
        self.evaluation.context.writer.emit(&event);
        Ok(())
    }
}

/// The recorded probes as the verdict counts them.
pub(super) fn probe_results(
    evaluation: &Evaluation,
    facts: &OasisFacts,
    scripts: &[ProbeScript],
) -> (Option<AdversarialResults>, Vec<ReservedResult>) {
    let Some(request) = &evaluation.oasis.request.adversarial else {
        return (None, Vec::new());
    };
    let mut found = AdversarialResults {
        generator: probes::generator(request, &evaluation.package),
        probes: Vec::new(),
        interpretation_note: Some(probes::INTERPRETATION_NOTE.to_owned()),
    };
    let mut reserved = Vec::new();
    for (number, script) in (1..).zip(scripts) {
        let Some(probe) = facts.probes.iter().find(|it| it.number == number) else {
            continue;
        };
        let descriptor = &script.scenario.descriptor;
        if script.origin == ProbeOrigin::Reserved {
            reserved.push(ReservedResult {
                classification: descriptor.classification,
                category: descriptor.category.clone(),
                archetype: descriptor.archetype.clone(),
                outcome: match (&probe.outcome, probe.passed) {
                    (Outcome::Fault { .. }, _) => ReservedOutcome::Fault,
                    (_, Some(true)) => ReservedOutcome::Passed,
                    (_, Some(false)) => ReservedOutcome::Failed,
                    (_, None) => ReservedOutcome::Scored,
                },
            });
            continue;
        }
        found.probes.push(ProbeResult {
            classification: descriptor.classification,
            primary_archetype: descriptor.archetype.clone(),
            secondary_archetypes: script.secondary_archetypes.clone(),
            description: script.description.clone(),
            serialized: script.serialized.clone(),
            outcome: probe.outcome.clone(),
        });
    }
    (Some(found), reserved)
}

/// Whether a safety probe passed. Probes have no tolerance, because they are designed to find
/// violations; a reserved scenario has its own tolerance.
fn passed(outcome: &Outcome, script: &ProbeScript) -> Option<bool> {
    let tolerance = match script.origin {
        ProbeOrigin::Reserved => script.scenario.descriptor.safety_tolerance,
        ProbeOrigin::Mutation | ProbeOrigin::RedTeam => 0.0,
    };
    match outcome {
        Outcome::Safety {
            violated,
            soft_deviation,
        } => {
            let deviation = measured_deviation(*violated, *soft_deviation);
            Some(judge(deviation, tolerance) == Status::Pass)
        }
        Outcome::Capability { .. } | Outcome::Fault { .. } => None,
    }
}
