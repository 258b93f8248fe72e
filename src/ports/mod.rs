//! The interfaces that use cases need, as narrow traits.
//!
//! Adapters implement them (`store`, `agent`, `registry`, `net`) and are named only in `app`. Every
//! lookup that may find nothing returns `Option`: "not there" is seldom an error. All lookups of
//! tenant-owned records include the tenant, so that a forgotten check finds nothing instead of
//! another tenant's data.

pub mod aaaf;
mod agent;
mod annotations;
mod attempts;
mod audit;
mod blobs;
mod calibrations;
mod cards;
mod clock;
mod deployments;
mod health;
mod host_keys;
mod host_secrets;
mod idempotency;
mod ids;
mod inventory;
mod judge;
mod keys;
mod live_tools;
mod model;
pub mod oasis;
mod pack_source;
mod pauses;
mod prober;
mod queue;
mod run_log;
mod signals;
mod signing_key;
mod storage;
mod store;
mod webhooks;

pub use agent::{
    AgentDefinition, AgentRuntime, EventSink, Exhausted, Invocation, InvocationEnd,
    InvocationResult, Meter, Unrecorded,
};
pub use annotations::{Annotated, AnnotationLimits, AnnotationRecord};
pub use calibrations::FoundAttempt;
pub use cards::{CardWatch, DueCard, Telling};
pub use clock::Clock;
pub use deployments::{DeploymentCommit, Revision};
pub use host_keys::HostKeys;
pub use host_secrets::{AUDIT_CHECKPOINTS, IDEMPOTENCY_DIGESTS, INTERRUPT_TOKENS, Reencrypt};
pub use idempotency::{IdempotencyBegin, IdempotencyClaim, IdempotencyCompletion};
pub use ids::Ids;
pub use inventory::{InstallRecord, SuiteRecord};
pub use judge::{Exhibition, Judge, Judgement};
pub use keys::{KeyRecord, PreviousSecret, Rotation};
pub use live_tools::{LiveCall, LiveTools, ToolAnswer, ToolsUnavailable};
pub use model::{
    Heard, Model, ModelBinding, ModelError, ModelInfo, Models, NotReached, Permit, Permits,
    RATE_LIMITED, ReplaySource, TIMEOUT,
};
pub use pack_source::{PackSource, SourceError};
pub use pauses::PauseRequest;
pub use prober::{Certificates, Handshake, Method, ProbeRequest, Probed, Prober, Wire};
pub use queue::{CancelRequest, Claim, Claimable, Fence, Wait};
pub use run_log::{Beside, Head, READ_BYTES, StoredEvent, reaches_end};
pub use signing_key::{NoSigningKey, SigningKey};
pub use storage::{Remains, RunDeletion, Unmasked};
pub use store::{Outage, StoreError, Unstorable};
pub use webhooks::{
    Acknowledged, Followed, Notifier, Undelivered, WebhookClaim, WebhookRecord, Window,
};
