//! Test seams for conformance suites (OpenWOP host-sample test seams).
//!
//! A seam only arranges what a client could arrange itself, and calls the same use cases: it
//! decides nothing, keeps no state and writes no events. The one exception is the race in
//! `effects`, which no client can arrange.

pub mod budget;
pub mod effects;
pub mod http;
pub mod permissions;
pub mod tenants;
pub mod transitions;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use touchstone_deployments::service::deployments::Deployments;
use touchstone_host::ports::clock::Clock;
use touchstone_host::ports::ids::Ids;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_host::service::keys::Keys;
use touchstone_host::store::database::Database;
use touchstone_host::store::database::head;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{AgentId, RunId, TenantId};
use touchstone_openwop::wire::Major;
use touchstone_packs::service::packs::{Actor, ImportError, Packs};
use touchstone_runs::service::runs::Runs;
use touchstone_runs::service::runs::create::Dedup;
use touchstone_runs::service::webhooks::Webhooks;
use touchstone_runs::store as run_store;

/// The suite that the seams run: built here, because a conformance suite cannot know a suite of
/// this host.
const SUITE: &str = "private.touchstone.evals.conformance-seam";
/// Maximum number of tasks in that suite.
const MOST_TASKS: u64 = 50;
/// The suite of the dispatch seam.
const DISPATCHED: &str = "private.touchstone.evals.conformance-dispatch";
const STARTED: &str = "agent.invocation.started";
const COMPLETED: &str = "agent.invocation.completed";
/// How long a seam waits for its run: callers read the outcome at once.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_secs(1);
/// Maximum number of events in a response.
const MOST_EVENTS: usize = 100_000;
const PAGE: u32 = 1024;

/// A filter for events of a log; an absent field matches all.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    pub kind: Option<String>,
    pub node_id: Option<String>,
    /// Correlation id; this host's events have none.
    pub correlation_id: Option<String>,
    /// The id of the event's cause.
    pub causation_id: Option<String>,
}

impl Asked {
    fn takes(&self, event: &Value) -> bool {
        [
            ("type", &self.kind),
            ("nodeId", &self.node_id),
            ("correlationId", &self.correlation_id),
            ("causationId", &self.causation_id),
        ]
        .into_iter()
        .all(|(member, asked)| {
            asked
                .as_deref()
                .is_none_or(|asked| event.get(member).and_then(Value::as_str) == Some(asked))
        })
    }
}

/// An eval that a seam runs.
struct Errand<'a> {
    /// `agentId` as sent; `None` for the first installed agent.
    agent: Option<&'a Value>,
    configurable: Value,
    suite: Value,
}

pub struct SeamsDeps {
    pub runs: Arc<Runs>,
    pub packs: Arc<Packs>,
    pub deployments: Arc<Deployments>,
    pub keys: Arc<Keys>,
    pub webhooks: Arc<Webhooks>,
    pub store: Arc<Database>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
}

pub struct Seams {
    runs: Arc<Runs>,
    packs: Arc<Packs>,
    deployments: Arc<Deployments>,
    keys: Arc<Keys>,
    webhooks: Arc<Webhooks>,
    store: Arc<Database>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl Seams {
    pub fn new(deps: SeamsDeps) -> Self {
        Self {
            runs: deps.runs,
            packs: deps.packs,
            deployments: deps.deployments,
            keys: deps.keys,
            webhooks: deps.webhooks,
            store: deps.store,
            clock: deps.clock,
            ids: deps.ids,
        }
    }

    /// The log of a run; empty for a run that does not exist or is another tenant's.
    ///
    /// # Errors
    /// `validation_error` for more events than one response holds; the store failed.
    pub async fn log(
        &self,
        tenant: &TenantId,
        run: &RunId,
        asked: &Asked,
    ) -> Result<Vec<Value>, Problem> {
        let mut found = Vec::new();
        match self.runs.record(tenant, run).await {
            Ok(_) => {}
            Err(problem) if problem.code == ErrorCode::NotFound => return Ok(found),
            Err(problem) => return Err(problem),
        }
        let mut after = 0;
        loop {
            let page = run_store::runs::read(&self.store, run, after, PAGE)
                .await
                .map_err(|cause| internal(&cause))?;
            let Some(last) = page.last() else { break };
            after = last.sequence;
            for event in &page {
                let Ok(event) = serde_json::from_slice::<Value>(&event.body) else {
                    continue;
                };
                if !asked.takes(&event) {
                    continue;
                }
                if found.len() == MOST_EVENTS {
                    return Err(Problem::validation(
                        "type",
                        format!(
                            "more than {MOST_EVENTS} events match; ask for one `type` or `nodeId`"
                        ),
                    ));
                }
                found.push(event);
            }
        }
        Ok(found)
    }

    /// Runs an eval to its end: `{agentId?, modes?, taskCount?}`.
    ///
    /// # Errors
    /// Those of creating a run.
    pub async fn eval(&self, caller: &Caller, body: &Value) -> Result<Value, Problem> {
        let members = closed(body, &["agentId", "modes", "taskCount"])?;
        let tasks = match members.get("taskCount") {
            None | Some(Value::Null) => 1,
            Some(count) => count
                .as_u64()
                .filter(|count| (1..=MOST_TASKS).contains(count))
                .ok_or_else(|| {
                    Problem::validation(
                        "taskCount",
                        format!("`taskCount` must be an integer from 1 to {MOST_TASKS}"),
                    )
                })?,
        };
        let errand = Errand {
            agent: members.get("agentId"),
            configurable: json!({"evalModes": members.get("modes")}),
            suite: suite(tasks),
        };
        let run = self.evaluate(caller, errand).await?;
        let summary = self.runs.summary(&caller.tenant, &run).await?;
        Ok(json!({
            "runId": run,
            "suiteId": summary.suite_id,
            "suiteVersion": summary.suite_version,
            "taskCount": summary.task_count,
            "passed": summary.passed,
            "aggregateScore": summary.aggregate_score,
        }))
    }

    /// Invokes an agent once: `{agentId?, source?, returnSchemaRef?, forceInvalidResult?,
    /// attemptTool?}`.
    ///
    /// The task asks the agent for what the last three fields request: to answer with a document
    /// that violates its return schema, or to call this tool. An agent that follows its prompt
    /// literally, like that of the conformance kit, then shows how the host reacts.
    /// `returnSchemaRef` is the title of the return schema that the agent must have.
    ///
    /// # Errors
    /// Those of creating a run; `conflict` if no agent has this return schema.
    pub async fn invoke(&self, caller: &Caller, body: &Value) -> Result<Value, Problem> {
        let fields = [
            "agentId",
            "source",
            "returnSchemaRef",
            "forceInvalidResult",
            "attemptTool",
        ];
        let members = closed(body, &fields)?;
        match members.get("source") {
            None | Some(Value::Null) => {}
            Some(source) if source == "run-api" => {}
            Some(_) => {
                return Err(Problem::validation(
                    "source",
                    "agents are invoked by runs only: `source` must be `run-api`",
                ));
            }
        }
        let schema = text(members, "returnSchemaRef")?;
        let tool = text(members, "attemptTool")?;
        let forced = match members.get("forceInvalidResult") {
            None | Some(Value::Null) => false,
            Some(forced) => forced.as_bool().ok_or_else(|| {
                Problem::validation(
                    "forceInvalidResult",
                    "`forceInvalidResult` must be true or false",
                )
            })?,
        };
        if schema.is_some() && !forced {
            return Err(Problem::validation(
                "returnSchemaRef",
                "`returnSchemaRef` names the schema that the result violates; it requires \
                 `forceInvalidResult: true`",
            ));
        }
        let named = members.get("agentId").filter(|agent| !agent.is_null());
        let (agent, say) = if forced {
            let (agent, say) = self.violation(caller, named, schema).await?;
            (Some(json!(agent)), say)
        } else {
            (named.cloned(), "answer 1".to_owned())
        };
        let suite = match (forced, tool) {
            (false, None) => suite(1),
            (_, None) => suite_of(json!({"say": say})),
            (_, Some(tool)) => suite_of(json!({"say": say, "attemptTool": tool})),
        };
        let errand = Errand {
            agent: agent.as_ref(),
            configurable: json!({}),
            suite,
        };
        let run = self.evaluate(caller, errand).await?;
        let log = self.log(&caller.tenant, &run, &Asked::default()).await?;
        let started = payload(&log, STARTED)?;
        let completed = payload(&log, COMPLETED)?;
        Ok(json!({
            "runId": run,
            "invocationId": started.get("invocationId"),
            "outcome": completed.get("outcome"),
        }))
    }

    /// Gives an agent one task: `{task?, validateHandoff?, availableTools?}`. A task is always
    /// validated against the agent's schema for it, and the agent has only its own tools.
    ///
    /// # Errors
    /// Those of creating a run.
    pub async fn dispatch(
        &self,
        caller: &Caller,
        agent: &str,
        body: &Value,
    ) -> Result<Value, Problem> {
        let members = closed(body, &["task", "validateHandoff", "availableTools"])?;
        let offered = members.get("availableTools").and_then(Value::as_array);
        if offered.is_some_and(|offered| !offered.is_empty()) {
            return Err(Problem::validation(
                "availableTools",
                "this seam provides no tools; `availableTools` must be empty",
            ));
        }
        let task = members.get("task").cloned().unwrap_or_else(|| json!({}));
        let named = json!(agent);
        let errand = Errand {
            agent: Some(&named),
            configurable: json!({}),
            suite: suite_of(task),
        };
        let run = self.evaluate(caller, errand).await?;
        let log = self.log(&caller.tenant, &run, &Asked::default()).await?;
        let outcome = payload(&log, COMPLETED)?.get("outcome");
        let events: Vec<Value> = log
            .iter()
            .filter(|event| kind_of(event).starts_with("agent."))
            .map(flat)
            .collect();
        Ok(json!({"runId": run, "status": outcome, "events": events}))
    }

    /// An agent with a return schema, with this title if given, and a string that violates the
    /// schema.
    async fn violation(
        &self,
        caller: &Caller,
        named: Option<&Value>,
        title: Option<&str>,
    ) -> Result<(AgentId, String), Problem> {
        let candidates = match named {
            Some(_) => vec![self.agent(caller, named).await?],
            None => {
                let inventory = self.packs.agents(&caller.tenant).await?;
                let agents = inventory.agents.into_iter();
                agents.map(|agent| agent.agent_id.into()).collect()
            }
        };
        for agent in candidates {
            let loaded = self
                .runs
                .library
                .installed_agent(&caller.tenant, &agent, None)
                .await
                .map_err(|cause| internal(&cause))?;
            let schema = loaded
                .as_ref()
                .and_then(|it| it.definition.return_schema.as_ref());
            let Some((source, schema)) = schema else {
                continue;
            };
            if title.is_some_and(|title| source.get("title").and_then(Value::as_str) != Some(title))
            {
                continue;
            }
            let tried = [
                json!({}),
                json!([]),
                json!(0),
                json!("invalid"),
                Value::Null,
            ];
            if let Some(invalid) = tried.iter().find(|value| !schema.is_valid(value)) {
                return Ok((agent, invalid.to_string()));
            }
        }
        Err(Problem::new(
            ErrorCode::Conflict,
            "no matching agent has a return schema that can be violated",
        ))
    }

    async fn evaluate(&self, caller: &Caller, errand: Errand<'_>) -> Result<RunId, Problem> {
        let agent = self.agent(caller, errand.agent).await?;
        let suite = errand.suite.to_string();
        let suite = self
            .packs
            .import_suite(&Actor::of(caller), suite.as_bytes(), None)
            .await
            .map_err(|error| match error {
                ImportError::Problem(problem) => problem,
                ImportError::Faults(_) => nothing_came(),
            })?;
        // As in JSON there, null means absent.
        let body = json!({
            "mode": "eval",
            "evalSuiteRef": format!("{}@{}", suite.suite_id, suite.version),
            "agentId": agent,
            "configurable": errand.configurable,
        });
        let run = self
            .runs
            .create(caller, &body, Dedup::Off, Major::V1, None)
            .await?
            .run_id;
        self.wait_for(&run).await?;
        Ok(run)
    }

    /// The named agent, or the first installed one.
    async fn agent(&self, caller: &Caller, named: Option<&Value>) -> Result<AgentId, Problem> {
        match named {
            None | Some(Value::Null) => {}
            Some(Value::String(agent)) => return Ok(AgentId::from(agent.as_str())),
            Some(_) => {
                return Err(Problem::validation("agentId", "`agentId` must be a string"));
            }
        }
        let inventory = self.packs.agents(&caller.tenant).await?;
        let first = inventory.agents.first().ok_or_else(|| {
            Problem::new(
                ErrorCode::Conflict,
                "no agent is installed; install a pack first",
            )
        })?;
        Ok(first.agent_id.as_str().into())
    }

    async fn wait_for(&self, run: &RunId) -> Result<(), Problem> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let head = head(&self.store, run).await;
            let head = head.map_err(|cause| internal(&cause))?.unwrap_or_default();
            if head.ended {
                return Ok(());
            }
            self.store.run_changed(run, head, LOOK).await;
        }
        Err(late(run))
    }
}

fn late(run: &RunId) -> Problem {
    Problem::new(
        ErrorCode::Unavailable,
        "the run did not reach the expected state in time; read it later",
    )
    .with("runId", run.as_str())
}

/// A suite with this number of tasks. The version contains the number, so that each is always the
/// same document.
fn suite(tasks: u64) -> Value {
    let tasks_of_it: Vec<Value> = (1..=tasks)
        .map(|n| {
            let say = format!("answer {n}");
            json!({
                "taskId": format!("task-{n}"),
                "input": {"say": say},
                "expected": {"kind": "golden", "match": {"strategy": "contains", "value": say}},
            })
        })
        .collect();
    json!({
        "suiteId": SUITE,
        "version": format!("1.0.{tasks}"),
        "modes": ["golden"],
        "tasks": tasks_of_it,
    })
}

/// A suite of this one task, which every answer passes. The version is derived from the task, as
/// precisely as a version number can.
fn suite_of(task: Value) -> Value {
    let digest = Sha256::digest(task.to_string());
    let version = digest
        .iter()
        .take(6)
        .fold(0_u64, |number, octet| number * 256 + u64::from(*octet));
    json!({
        "suiteId": DISPATCHED,
        "version": format!("1.0.{version}"),
        "modes": ["golden"],
        "tasks": [{
            "taskId": "task",
            "input": task,
            "expected": {"kind": "golden", "match": {"strategy": "contains", "value": ""}},
        }],
    })
}

fn kind_of(event: &Value) -> &str {
    event
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The payload of the first event of a type.
fn payload<'a>(log: &'a [Value], kind: &str) -> Result<&'a Value, Problem> {
    log.iter()
        .find(|event| kind_of(event) == kind)
        .and_then(|event| event.get("payload"))
        .ok_or_else(nothing_came)
}

/// An event as this seam shows it: its type next to the members of its payload.
fn flat(event: &Value) -> Value {
    let mut shown = Map::new();
    shown.insert("type".to_owned(), json!(kind_of(event)));
    if let Some(payload) = event.get("payload").and_then(Value::as_object) {
        shown.extend(payload.clone());
    }
    Value::Object(shown)
}

/// An optional string.
fn text<'a>(members: &'a Map<String, Value>, field: &str) -> Result<Option<&'a str>, Problem> {
    match members.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Problem::validation(
            field,
            format!("`{field}` must be a string"),
        )),
    }
}

/// A required string.
fn required<'a>(members: &'a Map<String, Value>, field: &str) -> Result<&'a str, Problem> {
    text(members, field)?
        .ok_or_else(|| Problem::validation(field, format!("`{field}` is required")))
}

fn closed<'a>(body: &'a Value, fields: &[&str]) -> Result<&'a Map<String, Value>, Problem> {
    let members = body
        .as_object()
        .ok_or_else(|| Problem::validation("", "the body must be a JSON object"))?;
    match members.keys().find(|key| !fields.contains(&key.as_str())) {
        Some(unknown) => Err(Problem::validation(
            unknown,
            format!("unknown field; this seam takes {}", fields.join(", ")),
        )),
        None => Ok(members),
    }
}

fn nothing_came() -> Problem {
    Problem::new(
        ErrorCode::InternalError,
        "the seam's run lacks an expected event; look at its log",
    )
}
