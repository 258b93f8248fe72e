//! Creating runs: a request is parsed and planned, and the record and its queue entry are written
//! in one transaction.

use serde_json::{Value, json};

use crate::ports::webhooks::WebhookRecord;
use crate::rules::run::fold::RunStatus;
use crate::rules::run::fork::Fork;
use crate::rules::run::record::{RunRecord, RunSpec};
use crate::rules::run::request::{CreateRun, Request, parse, plan_workflow};
use crate::service::runs::Runs;
use crate::service::runs::plan::RemoteAgent;
use crate::storage::Usage;
use crate::store;
use touchstone_host::otlp::span;
use touchstone_host::ports::idempotency::{IdempotencyClaim, IdempotencyCompletion};
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::{RunId, TenantId};
use touchstone_openwop::suite::SuiteDocument;
use touchstone_openwop::wire::Major;
use touchstone_openwop::wire::log::LogMark;
use touchstone_openwop::wire::operation::link;
use touchstone_packs::ports::inventory::SuiteRecord;
use touchstone_packs::store as pack_store;

/// `Retry-After` while another run of the scope is active; its duration is unknown.
const ACTIVE_RETRY_S: u64 = 5;

#[derive(Clone, Debug)]
pub struct Created {
    pub run_id: RunId,
    /// The body of the `201`.
    pub body: Value,
    /// Whether the claim, if any, was completed in the same transaction.
    pub recorded: bool,
}

/// Whether a run may be created while another one of its scope is active (OpenWOP idempotency,
/// `X-Dedup`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dedup {
    /// It may.
    #[default]
    Off,
    /// It may not.
    Enforce,
}

/// A run about to be recorded.
pub(super) struct NewRun {
    pub(super) tenant: TenantId,
    pub(super) principal: String,
    pub(super) spec: RunSpec,
    pub(super) fork: Option<Fork>,
    /// The callback for the end of the run, in addition to the tenant's subscriptions.
    pub(super) callback: Option<WebhookRecord>,
    pub(super) log: LogMark,
}

impl Runs {
    /// Creates a run for a request under a major. With a claim, the idempotency record is completed
    /// in the same transaction.
    ///
    /// # Errors
    /// The checks of RFC 0081 §B, in order; `forbidden` for another tenant's `tenantId`;
    /// `webhook_url_rejected` for a `callbackUrl` that points to an internal host;
    /// `run_already_active` under [`Dedup::Enforce`].
    pub async fn create(
        &self,
        caller: &Caller,
        body: &Value,
        dedup: Dedup,
        major: Major,
        claim: Option<&IdempotencyClaim>,
    ) -> Result<Created, Problem> {
        let mut request = parse(self.library.kinds, body)?;
        let options = request.options_mut();
        if options
            .tenant_id
            .as_deref()
            .is_some_and(|tenant| tenant != caller.tenant.as_str())
        {
            return Err(Problem::new(
                ErrorCode::Forbidden,
                "`tenantId` is not the tenant of this key; leave it out",
            )
            .with("field", "tenantId"));
        }
        options.exclusive = dedup == Dedup::Enforce;
        if options.exclusive && options.scope_id.is_none() {
            return Err(Problem::validation(
                "scopeId",
                "`X-Dedup: enforce` allows one active run per scope; set `scopeId`",
            ));
        }
        let callback_url = options.callback_url.take();
        let spec = match request {
            Request::Eval(request) => self.plan(&caller.tenant, *request).await?,
            Request::Workflow(request) => {
                let definition = self.workflows.definition(&request.workflow_id);
                let agents = match &definition {
                    Some(definition) => self.bind_agents(&caller.tenant, definition).await?,
                    None => Vec::new(),
                };
                plan_workflow(*request, &self.limits, definition, agents, caller.test)?
            }
        };
        let callback = match callback_url {
            Some(url) => Some(self.webhooks.callback(caller, url).await?),
            None => None,
        };
        let log = LogMark::of_new(major);
        self.record_run(caller, spec, callback, log, claim).await
    }

    /// Creates an eval run of this suite under an id that the caller derives from its purpose:
    /// repeating the call yields the same run. The suite is stored for its runs and is not among
    /// the tenant's suites, so no other request can name it. The agent is an installed one, unless
    /// it runs remotely.
    ///
    /// # Errors
    /// As above, for eval runs; `quota_exceeded`.
    pub async fn create_as(
        &self,
        tenant: &TenantId,
        principal: &str,
        run_id: RunId,
        suite: &SuiteDocument,
        body: &Value,
        remote: Option<RemoteAgent<'_>>,
    ) -> Result<(), Problem> {
        let Request::Eval(request) = parse(self.library.kinds, body)? else {
            return Err(Problem::validation("mode", "`mode` must be \"eval\""));
        };
        let (digest, octets) = (suite.digest(), suite.canonical.as_bytes());
        let put = pack_store::blobs::put(&self.store, &digest, octets).await;
        put.map_err(|cause| internal(&cause))?;
        let created = self
            .create_over(tenant, principal, run_id, suite, *request, remote)
            .await;
        let kept = match &created {
            // A concurrent removal may have deleted the same bytes just before the record referred
            // to them.
            Ok(()) => pack_store::blobs::put(&self.store, &digest, octets).await,
            Err(_) => store::storage::drop_unreferenced(&self.store, &digest).await,
        };
        created?;
        kept.map_err(|cause| internal(&cause))?;
        self.store.notify_work().await;
        Ok(())
    }

    /// Creates an eval run of a suite whose bytes are stored.
    async fn create_over(
        &self,
        tenant: &TenantId,
        principal: &str,
        run_id: RunId,
        suite: &SuiteDocument,
        request: CreateRun,
        remote: Option<RemoteAgent<'_>>,
    ) -> Result<(), Problem> {
        let now = self.clock.now();
        let unlisted = SuiteRecord {
            tenant: tenant.clone(),
            suite_id: suite.suite.suite_id.clone(),
            version: suite.suite.version.clone(),
            digest: suite.digest(),
            scoring: None,
            task_count: u32::try_from(suite.suite.tasks.len()).unwrap_or(u32::MAX),
            pack: None,
            signed: false,
            added_at: now,
            bytes: None,
        };
        let record = RunRecord {
            run_id,
            tenant: tenant.clone(),
            principal: principal.to_owned(),
            created_at: now,
            spec: self
                .plan_over(tenant, request, Some(unlisted), remote)
                .await?,
            fork: None,
            trace: None,
            log: LogMark::of_new(Major::V1),
        };
        self.reserve_run(&record).await?;
        match store::runs::create(&self.store, &record, None).await {
            Ok(()) | Err(StoreError::Exists(_)) => {}
            Err(cause) => return Err(internal(&cause)),
        }
        if let Some(command) = &self.command {
            command.add_run(record.run_id);
        }
        Ok(())
    }

    pub(super) async fn record_run(
        &self,
        caller: &Caller,
        spec: RunSpec,
        callback: Option<WebhookRecord>,
        log: LogMark,
        claim: Option<&IdempotencyClaim>,
    ) -> Result<Created, Problem> {
        let run = NewRun {
            tenant: caller.tenant.clone(),
            principal: caller.principal.clone(),
            spec,
            fork: None,
            callback,
            log,
        };
        self.record_new(run, Value::Null, claim).await
    }

    /// Counts a new run against the quotas of its tenant. The caller's content is stored before the
    /// log.
    async fn reserve_run(&self, record: &RunRecord) -> Result<(), Problem> {
        let text = serde_json::to_string(record).map_err(|cause| internal(&cause))?;
        let one_more = Usage {
            runs: 1,
            bytes: u64::try_from(text.len()).unwrap_or(u64::MAX),
            ..Usage::default()
        };
        self.storage.reserve(&record.tenant, &one_more).await
    }

    /// Records a run; `answer` has additional members of the response.
    pub(super) async fn record_new(
        &self,
        run: NewRun,
        answer: Value,
        claim: Option<&IdempotencyClaim>,
    ) -> Result<Created, Problem> {
        let run_id = RunId::from(self.ids.mint("run"));
        let mut body = json!({
            "runId": run_id,
            "status": RunStatus::Pending,
            "eventsUrl": link(self.majors, format!("/v1/runs/{run_id}/events")),
            "statusUrl": link(self.majors, format!("/v1/runs/{run_id}")),
        });
        if let (Some(members), Value::Object(answer)) = (body.as_object_mut(), answer) {
            members.extend(answer);
        }
        if let (Some(members), Some(callback)) = (body.as_object_mut(), &run.callback) {
            let secret = json!(callback.secrets.current.expose());
            members.insert("callbackSecret".to_owned(), secret);
        }
        let mut spec = run.spec;
        if let Some(eval) = spec.eval_mut() {
            let command = self.command.as_ref();
            eval.execution.command = command.map(|command| command.name().to_owned());
        }
        let record = RunRecord {
            run_id: run_id.clone(),
            tenant: run.tenant,
            principal: run.principal,
            created_at: self.clock.now(),
            spec,
            fork: run.fork,
            trace: span::context(),
            log: run.log,
        };
        self.reserve_run(&record).await?;
        let completes = claim.map(|claim| IdempotencyCompletion {
            claim: claim.clone(),
            status: 201,
            body: body.to_string().into(),
        });
        let callback = run.callback.as_ref();
        let recorded =
            store::runs::create_with_callback(&self.store, &record, callback, completes.as_ref());
        recorded.await.map_err(|cause| match cause {
            StoreError::ScopeTaken(active) => already_active(&active),
            // Ids are new, so the conflict is about the number of a retry.
            StoreError::Exists(_) => Problem::new(
                ErrorCode::Conflict,
                "another retry of this run was created at the same moment; try again",
            )
            .with("reason", "retried_meanwhile"),
            cause => internal(&cause),
        })?;
        if let Some(command) = &self.command {
            command.add_run(run_id.clone());
        }
        self.store.notify_work().await;
        Ok(Created {
            run_id,
            body,
            recorded: claim.is_some(),
        })
    }
}

fn already_active(run: &RunId) -> Problem {
    Problem::new(
        ErrorCode::RunAlreadyActive,
        "another run of this `scopeId` is active; wait for it, cancel it, or leave `X-Dedup` out",
    )
    .with("activeRunId", run.as_str())
    // The protocol knows two values; the other one is a browser.
    .with("activeHost", "cloud")
    .with("retryAfter", ACTIVE_RETRY_S)
}
