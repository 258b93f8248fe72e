//! The stress test of an assessment (AAAF S7): eval runs of the library's suites against the agent.
//!
//! Run ids are derived from the assessment, so that a worker that continues finds the existing runs
//! and creates none twice. No worker waits for runs: an assessment with unfinished runs is parked
//! and checked again later.

pub mod own_tasks;
pub mod profiles;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::ports::agents::AgentRecord;
use crate::ports::assessments::{AssessmentOutcome, AssessmentRecord, StressTest};
use crate::ports::events::NewEvent;
use crate::ports::profiles::{CollectedRun, ExclusionReason};
use crate::ports::stress_tests::{StressOutcome, StressResult};
use crate::rules::agent::{OpenwopAgent, Profile};
use crate::rules::stress_test::library;
use crate::rules::stress_test::library::{Prepared, SkippedTest, Subject, Test};
use crate::rules::stress_test::stand_in;
use crate::rules::{Config, Dimension};
use crate::service::evidence::eval_runs::{are_ids_taken, record_events};
use crate::service::evidence::run_projection::project_run;
use crate::service::{Member, Ratings};
use crate::store;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::run_log::Head;
use touchstone_host::ports::store::StoreError;
use touchstone_host::store::database::Database;
use touchstone_host::store::database::head;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::{AgentId, RunId, TenantId};
use touchstone_runs::ports::queue::CancelRequest;
use touchstone_runs::rules::eval::suite_rules::read_suite;
use touchstone_runs::service::command::Command;
use touchstone_runs::service::library::LoadedAgent;
use touchstone_runs::service::runs::Runs;
use touchstone_runs::service::runs::plan::RemoteAgent;
use touchstone_runs::store as run_store;

/// Maximum total duration of the runs of an assessment.
pub(super) const MAX_DURATION: SignedDuration = SignedDuration::from_hours(2);
/// Maximum duration of one run.
const MAX_RUN_DURATION: Duration = Duration::from_secs(3600);

/// Why an agent that brings its own tools skips tests that depend on the host's tools.
const NEEDS_HOST_TOOLS: &str =
    "the agent runs outside this host and cannot use the tools and workers of this test";

/// The agent that answers in the runs of a stress test.
struct TestedAgent {
    /// The agent that the runs name, with its version pinned.
    agent: OpenwopAgent,
    /// The installed agent; `None` for an agent outside this host.
    installed: Option<Arc<LoadedAgent>>,
    /// Whether the agent brings its own tools and is offered none of the host's.
    is_remote: bool,
}

/// State of the runs of an assessment.
pub enum StressTestState {
    Running,
    /// All runs have ended, and their evidence is recorded.
    Done,
    /// The stress test failed with this finding.
    Failed(Box<AssessmentOutcome>),
}

/// The dependencies for running stress tests.
pub struct StressTestRunner {
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    runs: Arc<Runs>,
}

/// The run id of a test of an assessment.
pub fn run_of(assessment: &str, test: Test) -> RunId {
    let name = format!("aaaf.stress-test:{assessment}:{}", test.as_str());
    let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes());
    RunId::from(format!("run_{}", id.simple()))
}

impl Ratings {
    /// The tests that this host can run for an agent.
    ///
    /// # Errors
    /// `validation_error` if none can be run.
    pub(super) async fn stress_test(
        &self,
        member: &Member,
        agent: &AgentRecord,
        config: &Config,
        only: Option<Dimension>,
    ) -> Result<StressTest, Problem> {
        let tenant = member.organization.tenant.clone();
        let tested_agent = self.tested_agent(&tenant, &agent.profile).await?;
        let own = self.all_own_tasks(member).await?;
        let registered = agent.profile.tools.iter();
        let subject = Subject {
            agent: tested_agent.agent,
            reached_by: agent.profile.reached_by.clone(),
            domain: agent.profile.domains.first().cloned(),
            tools: registered
                .filter(|tool| match &tested_agent.installed {
                    Some(installed) => installed.definition.tool_allowlist.contains(tool),
                    None => true,
                })
                .cloned()
                .collect(),
            taxonomy: Some(config.rules.domain_taxonomy.clone()),
            own: own.into_iter().map(|it| it.task).collect(),
        };
        let mut plan = library::plan(subject, only);
        let out_of_reach = |test: &Test| tested_agent.is_remote && test.needs_tools();
        for it in &mut plan.left_out {
            if out_of_reach(&it.test) {
                NEEDS_HOST_TOOLS.clone_into(&mut it.reason);
            }
        }
        let skip_reason = |test: &Test| {
            if out_of_reach(test) {
                return Some(NEEDS_HOST_TOOLS);
            }
            // For example, an agent whose schema accepts only tickets does not get arithmetic
            // tasks.
            let prepared = library::prepare(*test, &plan.subject);
            let accepts = |input: &Value| match &tested_agent.installed {
                Some(installed) => installed.accepts(input),
                None => true,
            };
            let accepted = prepared.is_some_and(|it| inputs(&it.suite).all(accepts));
            (!accepted).then_some("the agent's task schema does not accept the tasks of this test")
        };
        let rejected = plan.tests.iter().filter_map(|test| {
            Some(SkippedTest {
                test: *test,
                dimension: test.dimension(),
                reason: skip_reason(test)?.to_owned(),
            })
        });
        let rejected: Vec<SkippedTest> = rejected.collect();
        plan.tests
            .retain(|test| rejected.iter().all(|it| it.test != *test));
        plan.left_out.extend(rejected);
        if plan.tests.is_empty() {
            let reason = plan.left_out.first().map(|it| it.reason.as_str());
            let reason = reason.unwrap_or(
                "this dimension has no stress test of its own; run all stress tests, or choose \
                 another dimension",
            );
            return Err(Problem::validation("dimension", reason));
        }
        Ok(StressTest { tenant, plan })
    }

    /// The agent that answers in the stress test of an enrolled agent.
    async fn tested_agent(
        &self,
        tenant: &TenantId,
        profile: &Profile,
    ) -> Result<TestedAgent, Problem> {
        let refuse = |message: &str| Err(Problem::validation("include_stress_test", message));
        if let Some(way) = &profile.reached_by {
            return match self.runs.reach(tenant, way) {
                Ok(_) => Ok(TestedAgent {
                    agent: stand_in::agent(),
                    installed: None,
                    is_remote: way.is_remote(),
                }),
                Err(refusal) => refuse(&refusal.message),
            };
        }
        let Some(openwop_agent) = &profile.openwop_agent else {
            return refuse(
                "a stress test runs the agent: set its `openwop_agent` or `reached_by` first, \
                or use passive_only, or full with `include_stress_test: false`",
            );
        };
        let (id, version) = (
            AgentId::from(openwop_agent.id.as_str()),
            openwop_agent.version.as_deref(),
        );
        let Some(installed) = self.runs.installed(tenant, &id, version).await? else {
            return refuse("the agent's `openwop_agent` is not installed on this host");
        };
        let mut agent = openwop_agent.clone();
        agent.version = Some(installed.version.clone());
        Ok(TestedAgent {
            agent,
            is_remote: self.runs.answered_remotely(&installed),
            installed: Some(installed),
        })
    }

    /// The task results of an assessment's stress test.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn stress_results(
        &self,
        member: &Member,
        id: &str,
    ) -> Result<Vec<StressResult>, Problem> {
        self.assessment(member, id).await?;
        let results =
            store::stress_tests::stress_results(&self.store, member.organization.number, id);
        results
            .await
            .map_err(|cause| touchstone_host::service::fault::internal(&cause))
    }
}

fn inputs(suite: &Value) -> impl Iterator<Item = &Value> {
    let tasks = suite.get("tasks").and_then(Value::as_array);
    tasks
        .into_iter()
        .flatten()
        .filter_map(|task| task.get("input"))
}

impl StressTestRunner {
    pub fn new(store: Arc<Database>, clock: Arc<dyn Clock>, runs: Arc<Runs>) -> Self {
        Self { store, clock, runs }
    }

    /// The command that this process runs; `None` for a host.
    pub(super) fn command(&self) -> Option<&Arc<Command>> {
        self.runs.command()
    }

    /// Creates missing runs and, once all have ended, records their evidence.
    ///
    /// # Errors
    /// The store failed.
    pub async fn advance(
        &self,
        assessment: &AssessmentRecord,
        stress: &StressTest,
    ) -> Result<StressTestState, StoreError> {
        let (mut under_way, mut ended) = (false, Vec::new());
        for &test in &stress.plan.tests {
            let run = run_of(&assessment.id, test);
            match head(&self.store, &run).await? {
                Some(head) if head.ended => ended.push((test, run, head)),
                Some(_) => {
                    under_way = true;
                    self.resume(stress, &run).await?;
                }
                None => match self.start_run(assessment, stress, test, &run).await? {
                    Ok(()) => under_way = true,
                    Err(problem) => {
                        let reason =
                            format!("{} cannot be run: {}", test.as_str(), problem.message);
                        return self.fail(assessment, stress, &reason).await;
                    }
                },
            }
        }
        for (test, run, head) in &ended {
            if let Some(how) = self.broken(run, *head).await? {
                let reason = format!("the run of {} {how}", test.as_str());
                return self.fail(assessment, stress, &reason).await;
            }
        }
        if under_way {
            let since = assessment.started_at.unwrap_or(assessment.created_at);
            let since = self.clock.now().duration_since(since);
            if since > MAX_DURATION {
                let reason = format!(
                    "its runs took longer than {} hours",
                    MAX_DURATION.as_hours()
                );
                return self.fail(assessment, stress, &reason).await;
            }
            return Ok(StressTestState::Running);
        }
        for (test, run, _) in &ended {
            if let Err(reason) = self.record(assessment, stress, *test, run).await? {
                let reason = format!("the run of {} is not evidence: {reason}", test.as_str());
                return self.fail(assessment, stress, &reason).await;
            }
        }
        Ok(StressTestState::Done)
    }

    async fn start_run(
        &self,
        assessment: &AssessmentRecord,
        stress: &StressTest,
        test: Test,
        run: &RunId,
    ) -> Result<Result<(), Problem>, StoreError> {
        let Some(Prepared { suite, profile }) = library::prepare(test, &stress.plan.subject) else {
            return Ok(Err(Problem::validation("", "its suite cannot be read")));
        };
        let Ok(suite) = read_suite(self.runs.library.kinds, suite.to_string().as_bytes()) else {
            return Ok(Err(Problem::validation("", "its suite is invalid")));
        };
        // Mark the run before creating it, so that it is never collected as evidence of other
        // assessments.
        let kept_apart = CollectedRun {
            run: run.clone(),
            agent: assessment.agent_number,
            suite: profile.suite(),
            events: 0,
            left_out: Some(ExclusionReason::StressTest),
        };
        store::profiles::record_collected_run(
            &self.store,
            assessment.organization,
            &kept_apart,
            self.clock.now(),
        )
        .await?;
        let agent = &stress.plan.subject.agent;
        let mut configurable = json!({"evalModes": ["golden"], "agentVersion": agent.version,
            "runTimeoutMs": MAX_RUN_DURATION.as_millis()});
        if test.is_ordered()
            && let Some(members) = configurable.as_object_mut()
        {
            members.insert("evalConcurrency".to_owned(), json!(1));
        }
        let body = json!({"mode": "eval", "evalSuiteRef": profile.suite(), "agentId": agent.id,
            "configurable": configurable, "tags": ["aaaf-stress-test"],
            "metadata": {"assessmentId": assessment.id}});
        let subject = &stress.plan.subject;
        let stand_in = match &subject.reached_by {
            None => None,
            Some(way) => {
                let tools: &[String] = if way.is_remote() { &[] } else { &subject.tools };
                match stand_in::pack(tools) {
                    Ok(pack) => Some((way, pack)),
                    Err(refusal) => return Ok(Err(Problem::validation("", refusal.to_string()))),
                }
            }
        };
        let elsewhere = stand_in
            .as_ref()
            .map(|(reached_by, pack)| RemoteAgent { reached_by, pack });
        let principal = &assessment.request.triggered_by;
        let tenant = &stress.tenant;
        let made = self
            .runs
            .create_as(tenant, principal, run.clone(), &suite, &body, elsewhere);
        Ok(made.await)
    }

    /// Takes over a run that another command was executing, unless a process still holds it: hosts
    /// do not execute runs of commands.
    async fn resume(&self, stress: &StressTest, run: &RunId) -> Result<(), StoreError> {
        let Some(command) = self.command() else {
            return Ok(());
        };
        let record = run_store::runs::find(&self.store, &stress.tenant, run).await?;
        let eval = record.as_ref().and_then(|record| record.spec.eval());
        let request = eval.and_then(|eval| eval.execution.command.as_deref());
        if request.is_some_and(|request| request != command.name()) && !command.runs().contains(run)
        {
            // If the takeover fails, the next check tries again.
            let _ = self.runs.take_over(&stress.tenant, run).await;
        }
        Ok(())
    }

    /// How a run ended early; `None` if it completed.
    async fn broken(&self, run: &RunId, head: Head) -> Result<Option<&'static str>, StoreError> {
        let last = run_store::runs::read(&self.store, run, head.sequence.saturating_sub(1), 1);
        let last = last.await?;
        Ok(match last.first().map(|event| event.kind.as_ref()) {
            Some("run.completed") => None,
            Some("run.cancelled") => Some("was cancelled"),
            _ => Some("failed"),
        })
    }

    async fn record(
        &self,
        assessment: &AssessmentRecord,
        stress: &StressTest,
        test: Test,
        run: &RunId,
    ) -> Result<Result<(), &'static str>, StoreError> {
        let store = self.store.as_ref();
        let organization = assessment.organization;
        let record = run_store::runs::find(store, &stress.tenant, run).await?;
        let agent = store::agents::agent(store, organization, &assessment.agent).await?;
        let prepared = library::prepare(test, &stress.plan.subject);
        let (Some(record), Some(agent), Some(prepared)) = (record, agent, prepared) else {
            return Ok(Err("the run, the agent or the suite no longer exists"));
        };
        // Earlier versions of this host read the suite from the tenant's suites, where a member
        // could replace it.
        let bytes = prepared.suite.to_string();
        let of_library =
            read_suite(self.runs.library.kinds, bytes.as_bytes()).map(|it| it.digest());
        let request = record.spec.eval().map(|eval| eval.suite_digest.as_str());
        if request.is_none() || request != of_library.as_deref().ok() {
            return Ok(Err("its suite differs from the library's suite"));
        }
        let id = Some(assessment.id.as_str());
        // The library's tasks are scored by code only, so no judge is involved.
        let doubted = HashSet::new();
        let made = project_run(store, &agent, &record, prepared.profile, id, &doubted).await?;
        let events = match made {
            Ok(made) => made.events,
            Err(reason) => return Ok(Err(reason.as_str())),
        };
        if are_ids_taken(store, organization, &events).await? {
            return Ok(Err(ExclusionReason::IdTaken.as_str()));
        }
        let now = self.clock.now();
        record_events(store, organization, &events, now).await?;
        let results = results(test, run, &events);
        store::stress_tests::record_stress_results(
            store,
            organization,
            &assessment.id,
            &results,
            now,
        )
        .await?;
        Ok(Ok(()))
    }

    /// Cancels unfinished runs.
    async fn fail(
        &self,
        assessment: &AssessmentRecord,
        stress: &StressTest,
        reason: &str,
    ) -> Result<StressTestState, StoreError> {
        let request = CancelRequest {
            cancelled_by: assessment.request.triggered_by.clone(),
            reason: Some("the assessment of this stress test has failed".to_owned()),
        };
        for &test in &stress.plan.tests {
            run_store::queue::request_cancel(&self.store, &run_of(&assessment.id, test), &request)
                .await?;
        }
        self.store.notify_work().await;
        Ok(StressTestState::Failed(Box::new(
            AssessmentOutcome::Failed {
                code: "INTERNAL_ERROR".to_owned(),
                message: format!("the stress test failed: {reason}"),
                details: json!({"step": "stress_test"}),
            },
        )))
    }
}

/// The judged tasks among these events.
fn results(test: Test, run: &RunId, events: &[NewEvent]) -> Vec<StressResult> {
    let read = |event: &NewEvent| serde_json::from_str::<Value>(&event.data).ok();
    let mut names: HashMap<&str, String> = HashMap::new();
    let mut found = Vec::new();
    for event in events {
        let Some(data) = read(event) else { continue };
        if let Some(name) = data.get("eval_task_id").and_then(Value::as_str) {
            names.insert(&event.task, name.to_owned());
        }
        let Some(status) = data.get("completion_status").and_then(Value::as_str) else {
            continue;
        };
        let outcome = match status {
            "accepted" => StressOutcome::Pass,
            "partial" => StressOutcome::Partial,
            _ => StressOutcome::Fail,
        };
        let score = data.get("quality_score").and_then(Value::as_f64);
        found.push((event.task.as_str(), outcome, score.unwrap_or_default()));
    }
    let result = |(task, outcome, score): (&str, StressOutcome, f64)| StressResult {
        test: test.as_str().to_owned(),
        task: names.get(task).cloned().unwrap_or_else(|| task.to_owned()),
        run_id: run.clone(),
        outcome,
        score,
    };
    found.into_iter().map(result).collect()
}
