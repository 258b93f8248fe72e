//! What the use cases need from the world, as narrow traits.
//!
//! Adapters implement them (`store`, `agent`, `registry`, `net`) and are named only in `app`. Every look-up that may find
//! nothing returns `Option`: "not there" is seldom an error. All tenant-owned records are asked for *with* their tenant, so
//! that a forgotten check finds nothing instead of somebody else's data.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::Value;

use crate::domain::agent::{ModelReply, ModelRequest, Rejection, RetryPolicy};
use crate::domain::budget::Estimate;
use crate::domain::ids::{AgentId, EventId, KeyId, RunId, TaskId, TenantId};
use crate::domain::money::TokenPrice;
use crate::domain::pack::name::PackId;
use crate::domain::run::record::RunRecord;
use crate::protocol::openwop::events::Event;
use crate::protocol::openwop::pack::{PackIndex, RegistryDiscovery, SigningKey};
use crate::protocol::openwop::suite::{Fixtures, ModelClass};
use crate::protocol::schema::CompiledSchema;

/// The time, injected so that rules and tests decide what "now" is.
pub trait Clock: Send + Sync {
    /// The current moment.
    fn now(&self) -> Timestamp;
}

/// Fresh identifiers and key material.
pub trait Ids: Send + Sync {
    /// `<prefix>_<time-ordered unique part>`, `[A-Za-z0-9_-]` only.
    fn mint(&self, prefix: &str) -> String;
    /// 32 octets of cryptographic randomness.
    fn secret(&self) -> [u8; 32];
}

// ------------------------------------------------------------------------------------------------------------- storage

/// Why the store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The lease was lost: another replica owns the run now. The caller stops; whatever it holds is void.
    #[error("the lease on this run was lost")]
    Fenced,
    /// A record with this identity exists already.
    #[error("{0} exists already")]
    Exists(&'static str),
    /// The database refused or is unreachable; the cause chain goes to the log only.
    #[error("the store failed")]
    Backend(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A row that our own code cannot have written.
    #[error("inconsistent row in {table}, column {column}")]
    Inconsistent {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
    },
}

/// One entry of a run's log as it is kept and streamed: the document is serialised once, when it is appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    /// Position in the log, from 1, without gaps.
    pub sequence: u64,
    /// The event type, for filters.
    pub kind: Arc<str>,
    /// The complete event document as JSON text on one line.
    pub body: Bytes,
}

/// How far a run's log reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The highest sequence, 0 for an empty log.
    pub sequence: u64,
    /// Whether the last entry is the terminal event.
    pub ended: bool,
}

/// Grows with every claim of a run; an append under an older one is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fence(pub i64);

/// A run that this replica may work on until its lease ends.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The run.
    pub run: Arc<RunRecord>,
    /// The fencing token of this claim.
    pub fence: Fence,
    /// Where its log ends now.
    pub head: Head,
}

/// The append-only event log and the runs it belongs to.
#[async_trait]
pub trait RunLog: Send + Sync {
    /// Records a new run and, unless it is a journal, its place in the queue; completes the idempotency record. All or
    /// nothing.
    async fn create(
        &self,
        run: &RunRecord,
        completes: Option<&IdempotencyCompletion>,
    ) -> Result<(), StoreError>;
    /// The immutable record of a run of this tenant.
    async fn run(&self, tenant: &TenantId, run: &RunId) -> Result<Option<RunRecord>, StoreError>;
    /// Appends `events` (consecutive, the first one directly after the head) if `fence` is still the newest claim.
    /// `ends` marks the last one as terminal and takes the run out of the queue. Durable when this returns.
    async fn append(
        &self,
        run: &RunId,
        fence: Fence,
        events: &[StoredEvent],
        ends: bool,
    ) -> Result<(), StoreError>;
    /// Up to `limit` events with a sequence above `after`, in order.
    async fn read(
        &self,
        run: &RunId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<StoredEvent>, StoreError>;
    /// Where the log ends.
    async fn head(&self, run: &RunId) -> Result<Option<Head>, StoreError>;
    /// The sequence of an event id within a run, for `Last-Event-ID`.
    async fn sequence_of(&self, run: &RunId, event_id: &str) -> Result<Option<u64>, StoreError>;
    /// The newest runs of a tenant, newest first (for the command line; OpenWOP v1 has no run list).
    async fn recent(&self, tenant: &TenantId, limit: u32) -> Result<Vec<RunRecord>, StoreError>;
}

/// A request to cancel, recorded beside the run until its owner appends `run.cancelled`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CancelRequest {
    /// Key id of who asked.
    pub cancelled_by: String,
    /// Why, if said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Which runs a claim may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimable {
    /// Any.
    All,
    /// Only those that are to be cancelled: that takes a moment and no slot.
    Cancelled,
}

/// Which replica works on which run. Times are the caller's clock; correctness rests on the fence, not on clocks.
#[async_trait]
pub trait WorkQueue: Send + Sync {
    /// Claims the oldest unfinished run whose lease is free or over, of all or only of those a cancel was asked for. Raises
    /// its fence.
    async fn claim(
        &self,
        owner: &str,
        which: Claimable,
        now: Timestamp,
        ttl: Duration,
    ) -> Result<Option<Claim>, StoreError>;
    /// Extends those leases of `owner` that are among `held` and have not run out; answers with them and a pending cancel
    /// for each. A lease that nobody works under (its claim's answer was lost, its run is broken) runs out.
    async fn renew(
        &self,
        owner: &str,
        held: &[(RunId, Fence)],
        now: Timestamp,
        ttl: Duration,
    ) -> Result<Vec<(RunId, Fence, Option<CancelRequest>)>, StoreError>;
    /// Claims one run of this tenant by name, also a parked one or a journal, unless somebody holds it. Raises its fence.
    async fn claim_run(
        &self,
        tenant: &TenantId,
        run: &RunId,
        owner: &str,
        now: Timestamp,
        ttl: Duration,
    ) -> Result<Option<Claim>, StoreError>;
    /// Gives a run back, for others to go on with at once.
    async fn release(&self, run: &RunId, fence: Fence) -> Result<(), StoreError>;
    /// Gives a run back that waits: nobody claims it before `until` (`None`: before it is released or to be cancelled). A
    /// cancel that was asked for meanwhile counts.
    async fn park(
        &self,
        run: &RunId,
        fence: Fence,
        until: Option<Timestamp>,
    ) -> Result<(), StoreError>;
    /// Records a cancel request for an unfinished run; the first request stands. A parked run may be claimed at once then.
    /// `false` if the run has ended.
    async fn request_cancel(
        &self,
        run: &RunId,
        request: &CancelRequest,
    ) -> Result<bool, StoreError>;
    /// The recorded cancel request of a run.
    async fn cancel_requested(&self, run: &RunId) -> Result<Option<CancelRequest>, StoreError>;
}

/// Wakes whoever waits for a run. Carries no truth: a lost signal costs a poll interval, never an event.
#[async_trait]
pub trait Signals: Send + Sync {
    /// Waits until something may have changed in `run` (new events, a cancel request) or `at_most` has passed.
    async fn run_changed(&self, run: &RunId, known: Head, at_most: Duration);
    /// Waits until work may be waiting or `at_most` has passed.
    async fn work_waiting(&self, at_most: Duration);
    /// Tells every replica that `run`'s log reaches `head` now.
    async fn notify_run(&self, run: &RunId, head: Head);
    /// Tells every replica that a run waits, or that a cancel was requested.
    async fn notify_work(&self);
}

/// An API key as it is kept: the secret only as a hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// Public half, part of the key's text.
    pub id: KeyId,
    /// Whose key it is.
    pub tenant: TenantId,
    /// SHA-256 of the secret half.
    pub secret_hash: [u8; 32],
    /// What it may do.
    pub scopes: Vec<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends, if it does.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// API keys.
#[async_trait]
pub trait KeyStore: Send + Sync {
    /// Adds a key.
    async fn add_key(&self, key: &KeyRecord) -> Result<(), StoreError>;
    /// The key with this public half, of whatever tenant, revoked or not.
    async fn key(&self, id: &KeyId) -> Result<Option<KeyRecord>, StoreError>;
    /// All keys, by creation, of one tenant or of all.
    async fn keys(&self, tenant: Option<&TenantId>) -> Result<Vec<KeyRecord>, StoreError>;
    /// Revokes; `false` if there is no such key.
    async fn revoke_key(&self, id: &KeyId, now: Timestamp) -> Result<bool, StoreError>;
}

/// Content-addressed octets: pack archives and suites. Never deleted, so that a run can always resume.
#[async_trait]
pub trait Blobs: Send + Sync {
    /// Keeps `octets` under `digest` (`sha256-<base64>`); keeping the same again is no error.
    async fn put(&self, digest: &str, octets: &[u8]) -> Result<(), StoreError>;
    /// The octets.
    async fn get(&self, digest: &str) -> Result<Option<Bytes>, StoreError>;
}

/// What a tenant has installed, a pack version at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct InstallRecord {
    /// Whose it is.
    pub tenant: TenantId,
    /// Pack name.
    pub name: String,
    /// Pack version, SemVer.
    pub version: String,
    /// `sha256-<base64>` of the archive; the key of its blob.
    pub integrity: String,
    /// When.
    pub installed_at: Timestamp,
    /// Everything else that is shown: signature state, degraded capabilities, warnings, agents.
    pub facts: Value,
}

/// A suite a tenant may run.
#[derive(Clone, Debug, PartialEq)]
pub struct SuiteRecord {
    /// Whose it is.
    pub tenant: TenantId,
    /// Suite id.
    pub suite_id: String,
    /// Suite version.
    pub version: String,
    /// `sha256-<base64>` of the canonical document; the key of its blob.
    pub digest: String,
    /// Number of tasks, for lists.
    pub task_count: u32,
    /// The pack it came with, `name@version`; `None` for an imported suite, which is unsigned.
    pub pack: Option<String>,
    /// Whether a trusted signature covers the suite itself: `tarball` coverage only.
    pub signed: bool,
    /// When.
    pub added_at: Timestamp,
}

/// Installed packs and suites.
#[async_trait]
pub trait Inventory: Send + Sync {
    /// Makes a pack and its suites visible in one step. [`StoreError::Exists`] if the name and version, or one of the
    /// suites, is there with other content; the same again is no error.
    async fn install(&self, pack: &InstallRecord, suites: &[SuiteRecord])
    -> Result<(), StoreError>;
    /// Removes a pack and its suites; `false` if it was not there.
    async fn remove(
        &self,
        tenant: &TenantId,
        name: &str,
        version: &str,
    ) -> Result<bool, StoreError>;
    /// All packs of a tenant by name and version.
    async fn installs(&self, tenant: &TenantId) -> Result<Vec<InstallRecord>, StoreError>;
    /// Adds an imported suite. [`StoreError::Exists`] as in `install`.
    async fn add_suite(&self, suite: &SuiteRecord) -> Result<(), StoreError>;
    /// Removes an imported suite; `false` if it was not there or came with a pack.
    async fn remove_suite(
        &self,
        tenant: &TenantId,
        suite_id: &str,
        version: &str,
    ) -> Result<bool, StoreError>;
    /// One suite.
    async fn suite(
        &self,
        tenant: &TenantId,
        suite_id: &str,
        version: &str,
    ) -> Result<Option<SuiteRecord>, StoreError>;
    /// All suites of a tenant by id and version.
    async fn suites(&self, tenant: &TenantId) -> Result<Vec<SuiteRecord>, StoreError>;
}

/// Who asks for what under an `Idempotency-Key` (OpenWOP idempotency, layer 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyClaim {
    /// Authenticated tenant.
    pub tenant: TenantId,
    /// Canonical endpoint, such as `POST /v1/runs`.
    pub endpoint: String,
    /// SHA-256 of the key; raw keys are never kept.
    pub key_hash: [u8; 32],
    /// SHA-256 of the canonical body.
    pub digest: [u8; 32],
    /// Who carries it out, for the lease.
    pub owner: String,
}

/// What the layer found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdempotencyBegin {
    /// First request: carry it out, then complete or abandon.
    Fresh,
    /// The same request was answered before.
    Replay {
        /// HTTP status of then.
        status: u16,
        /// Body of then.
        body: Bytes,
    },
    /// The same key came with another body.
    Mismatch,
    /// The first request is still under way.
    InFlight,
}

/// The answer to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyCompletion {
    /// The claim it completes.
    pub claim: IdempotencyClaim,
    /// HTTP status.
    pub status: u16,
    /// Body.
    pub body: Bytes,
}

/// Idempotency records, kept for at least 24 h.
#[async_trait]
pub trait Idempotency: Send + Sync {
    /// Takes the lock or says why not. A lease that is over is taken by compare-and-swap.
    async fn begin(
        &self,
        claim: &IdempotencyClaim,
        now: Timestamp,
        lease: Duration,
    ) -> Result<IdempotencyBegin, StoreError>;
    /// Keeps the answer.
    async fn complete(&self, completion: &IdempotencyCompletion) -> Result<(), StoreError>;
    /// Frees the key: the answer is one that must not be replayed.
    async fn abandon(&self, claim: &IdempotencyClaim) -> Result<(), StoreError>;
    /// Deletes records older than the retention.
    async fn expire(&self, older_than: Timestamp) -> Result<u64, StoreError>;
}

/// Everything a store does; one adapter an engine implements it all.
pub trait Store: RunLog + WorkQueue + Signals + KeyStore + Blobs + Inventory + Idempotency {}
impl<T: RunLog + WorkQueue + Signals + KeyStore + Blobs + Inventory + Idempotency> Store for T {}

// ---------------------------------------------------------------------------------------------------------------- model

/// Why a call gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The machinery failed; says nothing about the agent. Retried while attempts remain.
    #[error("the model endpoint is unavailable: {reason}")]
    Unavailable {
        /// A label from a closed list (`connect`, `timeout`, `status_503`, `rate_limited`, `malformed_reply`, …).
        reason: String,
        /// Whether another attempt may help.
        retryable: bool,
        /// What the endpoint asked for in `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// The endpoint understood and refused this request (context overflow, content filter): the agent's own failure.
    #[error("the model endpoint refused the request: {reason}")]
    Rejected {
        /// Which refusal.
        reason: Rejection,
    },
}

/// A model endpoint. One call is one attempt; retries are the runtime's, so that they are seen.
#[async_trait]
pub trait Model: Send + Sync {
    /// Asks once. Dropping the future cancels the request.
    async fn complete(&self, request: &ModelRequest<'_>) -> Result<ModelReply, ModelError>;
    /// What is known of the endpoint.
    fn info(&self) -> &ModelInfo;
}

/// Facts about a model endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelInfo {
    /// Provider name, for `provider.usage`.
    pub provider: String,
    /// Model name, for `provider.usage`.
    pub model: String,
    /// Price of a token.
    pub price: TokenPrice,
    /// Calls in flight at most.
    pub max_concurrency: u32,
    /// Longest time one attempt may take.
    pub timeout: Duration,
    /// How failed attempts are repeated.
    pub retry: RetryPolicy,
}

// -------------------------------------------------------------------------------------------------------- agent runtime

/// A model endpoint as the runtime uses it: the adapter with the permits all its callers share.
#[derive(Clone)]
pub struct ModelBinding {
    /// The adapter.
    pub model: Arc<dyn Model>,
    /// Calls in flight at most, over all runs and tenants of this replica.
    pub permits: Arc<tokio::sync::Semaphore>,
}

/// The configured endpoints.
pub trait Models: Send + Sync {
    /// The endpoint for a class: an entry of its own, or the one for `*`.
    fn resolve(&self, class: ModelClass) -> Option<ModelBinding>;
}

/// An agent of a verified pack, ready to run.
#[derive(Clone, Debug)]
pub struct AgentDefinition {
    /// Its id.
    pub agent_id: AgentId,
    /// Its class.
    pub model_class: ModelClass,
    /// Its system prompt.
    pub prompt: Arc<str>,
    /// Tools it may call, `<scope>:<tool-id>`.
    pub tool_allowlist: Vec<String>,
    /// What its output must satisfy: the schema and its compiled form.
    pub return_schema: Option<(Arc<Value>, CompiledSchema)>,
}

/// One task to carry out.
pub struct Invocation<'a> {
    /// Unique id of this invocation.
    pub invocation_id: String,
    /// The agent.
    pub agent: &'a AgentDefinition,
    /// The version of its pack.
    pub agent_version: &'a str,
    /// The endpoint.
    pub model: &'a ModelBinding,
    /// The task.
    pub input: &'a Value,
    /// What stands in for tools and memory.
    pub fixtures: Option<&'a Fixtures>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Most tokens of one answer.
    pub max_tokens: Option<u64>,
    /// The task's id, for `provider.usage`.
    pub node_id: &'a TaskId,
}

/// How an invocation ended.
#[derive(Clone, Debug, PartialEq)]
pub enum InvocationEnd {
    /// A final decision that may be matched.
    Decided {
        /// The output: parsed JSON under a return schema, else text.
        output: Value,
    },
    /// The agent's own failure: scores 0.
    Failed {
        /// A label from a closed list (`invalid_output`, `turn_limit`, `refused`, `empty_answer`, …).
        reason: String,
    },
    /// The machinery failed: nothing can be said of the agent. `budget_exhausted` when the meter refused.
    Unjudged {
        /// A label from a closed list.
        reason: String,
    },
}

/// What came of an invocation.
#[derive(Clone, Debug, PartialEq)]
pub struct InvocationResult {
    /// How it ended.
    pub end: InvocationEnd,
    /// Whether the output satisfies the return schema; `None` without one or without an output.
    pub schema_valid: Option<bool>,
    /// Wall-clock time from the first model call on.
    pub latency_ms: u64,
}

/// The budget refused a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the budget is used up")]
pub struct Exhausted;

/// The run's budget: reserve before every model call, settle after it, whatever came of it.
#[async_trait]
pub trait Meter: Send + Sync {
    /// Waits until the estimate fits.
    async fn reserve(&self, estimate: Estimate) -> Result<(), Exhausted>;
    /// Replaces the estimate by what was used (nothing, for a call that failed).
    fn settle(&self, estimate: Estimate, used: Estimate);
}

/// Where the runtime records what happens.
pub trait EventSink: Send + Sync {
    /// Records an event of this task.
    fn emit(&self, event: Event, cause: Option<&EventId>) -> EventId;
}

/// Runs one agent invocation: model turns and tool calls until the final decision (RFC 0077).
#[async_trait]
pub trait AgentRuntime: Send + Sync {
    /// Carries it out and records its `agent.*` and `provider.usage` events. Dropping the future cancels it.
    async fn invoke(
        &self,
        invocation: Invocation<'_>,
        meter: &dyn Meter,
        sink: &dyn EventSink,
    ) -> InvocationResult;
}

// --------------------------------------------------------------------------------------------------------------- packs

/// Why a place packs come from could not be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// It cannot be reached, or does not answer as it should; a label from a closed list.
    #[error("the registry cannot be reached: {0}")]
    Unreachable(String),
    /// A document is larger than any sound one.
    #[error("the registry's {document} is too large")]
    TooLarge {
        /// Which document.
        document: &'static str,
    },
    /// What it answers is not what it should be.
    #[error("the registry's {document} {reason}")]
    Malformed {
        /// Which document.
        document: &'static str,
        /// What is wrong with it, without its content.
        reason: String,
    },
}

/// A registry: a directory or a server. It is asked and never believed; every document is bounded in size and judged by
/// [`crate::domain::pack`].
#[async_trait]
pub trait PackSource: Send + Sync {
    /// The discovery document, if there is one.
    async fn discovery(&self) -> Result<Option<RegistryDiscovery>, SourceError>;
    /// The versions of a pack.
    async fn index(&self, name: &str) -> Result<Option<PackIndex>, SourceError>;
    /// The served manifest.
    async fn served(&self, pack: &PackId) -> Result<Option<Bytes>, SourceError>;
    /// The archive.
    async fn tarball(&self, pack: &PackId) -> Result<Option<Bytes>, SourceError>;
    /// The detached signature.
    async fn signature(&self, pack: &PackId) -> Result<Option<Bytes>, SourceError>;
    /// The file of a key that the discovery document lists.
    async fn public_key(&self, key: &SigningKey) -> Result<Option<Bytes>, SourceError>;
}
