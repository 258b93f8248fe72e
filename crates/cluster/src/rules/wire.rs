//! Messages between owners and workers: JSON objects with a version.
//!
//! Members are only added, and unknown members are ignored. A message that an older version would
//! misunderstand says so by `min`, the lowest version that can read it. Readers check every size
//! and name; errors contain nothing of the message.

use std::fmt;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use subtle::ConstantTimeEq as _;
use touchstone_agents::rules::worker_labels::{self, WorkerLabels};
use touchstone_kit::json;

use crate::rules::access::rights::Forbidden;
use crate::rules::subjects::is_token;

pub mod parts;
mod report;
mod task;
mod text;

pub use report::{Amount, Await, End, Ending, Facts, Frame, NewFacts, Received};
pub use task::{Agent, Assignment, File, Served, Talk, TaskFixtures, Turns};

/// The version of this program's messages.
pub const VERSION: u64 = 1;
/// Largest message in bytes. Message servers accept 1 MiB by default.
pub const MAX_BYTES: usize = 960 * 1024;
/// Most facts in one message.
pub const MAX_FRAMES: usize = 1_000;
/// Most attempts in one heartbeat.
pub const MAX_HELD: usize = 4_096;
/// Longest id in bytes.
const MAX_ID: usize = 200;
/// Bytes of a token.
const TOKEN_BYTES: usize = 16;

/// Why a message cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("the message has {0} bytes, more than {MAX_BYTES}")]
    TooLarge(usize),
    #[error("the message {0}")]
    NotJson(json::Error),
    #[error("the message needs version {0} of the protocol, and this program reads {VERSION}")]
    Version(u64),
    /// Members are missing or have other types.
    #[error("the message does not have the members of {0}")]
    Shape(&'static str),
    #[error("`{field}` {problem}")]
    Field {
        field: &'static str,
        problem: &'static str,
    },
}

/// A kind of message.
pub trait Message: Serialize + DeserializeOwned {
    /// Its name in errors.
    const NAME: &'static str;

    /// Checks sizes and names.
    ///
    /// # Errors
    /// The first member that is wrong.
    fn check(&self) -> Result<(), Unreadable>;
}

#[derive(Serialize)]
struct Envelope<'a, M> {
    v: u64,
    #[serde(flatten)]
    message: &'a M,
}

/// Writes a message.
///
/// # Errors
/// It is too large.
pub fn write<M: Message>(message: &M) -> Result<Bytes, Unreadable> {
    let envelope = Envelope {
        v: VERSION,
        message,
    };
    let bytes = serde_json::to_vec(&envelope).map_err(|_| Unreadable::Shape(M::NAME))?;
    if bytes.len() > MAX_BYTES {
        return Err(Unreadable::TooLarge(bytes.len()));
    }
    Ok(bytes.into())
}

/// Reads a message.
///
/// # Errors
/// It is of no use to this version.
pub fn read<M: Message>(bytes: &[u8]) -> Result<M, Unreadable> {
    if bytes.len() > MAX_BYTES {
        return Err(Unreadable::TooLarge(bytes.len()));
    }
    let document = json::parse_foreign(bytes).map_err(Unreadable::NotJson)?;
    let number = |name| document.get(name).and_then(Value::as_u64);
    let version = number("v").ok_or(Unreadable::Field {
        field: "v",
        problem: "must be the version of the message",
    })?;
    let needed = number("min").unwrap_or(version);
    if needed > VERSION || needed == 0 {
        return Err(Unreadable::Version(needed));
    }
    let message: M = serde_json::from_value(document).map_err(|_| Unreadable::Shape(M::NAME))?;
    message.check()?;
    Ok(message)
}

pub(super) fn check_id(field: &'static str, id: &str) -> Result<(), Unreadable> {
    let plain = |byte: u8| byte.is_ascii_graphic();
    if (1..=MAX_ID).contains(&id.len()) && id.bytes().all(plain) {
        return Ok(());
    }
    let problem = "must have 1 to 200 printable ASCII characters";
    Err(Unreadable::Field { field, problem })
}

fn check_name(field: &'static str, name: &str) -> Result<(), Unreadable> {
    if is_token(name) {
        return Ok(());
    }
    let problem = "must have 1 to 48 letters, digits, `-` and `_`";
    Err(Unreadable::Field { field, problem })
}

pub(super) fn check_most(field: &'static str, found: usize, most: usize) -> Result<(), Unreadable> {
    if found <= most {
        return Ok(());
    }
    let problem = "has too many items";
    Err(Unreadable::Field { field, problem })
}

/// Proves that a worker was granted an attempt. Compared in constant time; not shown in logs.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(String);

impl Token {
    /// A token of random bytes.
    pub fn new(random: &[u8; 32]) -> Self {
        let used = random.get(..TOKEN_BYTES).unwrap_or(random);
        Self(touchstone_kit::hex::hex(used))
    }

    fn check(&self) -> Result<(), Unreadable> {
        check_name("token", &self.0)
    }
}

impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// A worker process: its configured name, and an id of this start.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WorkerId {
    pub worker: String,
    pub epoch: String,
}

impl WorkerId {
    fn check(&self) -> Result<(), Unreadable> {
        check_name("worker", &self.worker)?;
        check_id("epoch", &self.epoch)
    }
}

/// A message in a queue: a task that waits for a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offered {
    /// The owner.
    pub replica: String,
    pub offer: String,
}

impl Message for Offered {
    const NAME: &'static str = "an offer";

    fn check(&self) -> Result<(), Unreadable> {
        check_name("replica", &self.replica)?;
        check_id("offer", &self.offer)
    }
}

/// A worker asks for a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    #[serde(flatten)]
    pub worker: WorkerId,
    pub offer: String,
    /// Id of this request. A repeated request gets the same answer.
    pub claim: String,
    /// The labels of the worker. Earlier versions have none.
    #[serde(
        default,
        deserialize_with = "worker_labels::known",
        skip_serializing_if = "WorkerLabels::is_empty"
    )]
    pub labels: WorkerLabels,
    /// Largest task in bytes that the worker takes in parts. Earlier versions take none.
    #[serde(default)]
    pub largest: usize,
}

impl Message for Claim {
    const NAME: &'static str = "a claim";

    fn check(&self) -> Result<(), Unreadable> {
        self.worker.check()?;
        check_id("offer", &self.offer)?;
        check_id("claim", &self.claim)
    }
}

/// The holder of an attempt asks for a part of the task's text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FetchPart {
    #[serde(flatten)]
    pub proof: Proof,
    /// Where the part begins, in bytes.
    pub part_from: usize,
}

impl Message for FetchPart {
    const NAME: &'static str = "a request for a part of a task";

    fn check(&self) -> Result<(), Unreadable> {
        self.proof.check()
    }
}

/// What arrives where owners receive claims. Parts have no place of their own, because it would need
/// another permission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ClaimOrPart {
    Part(FetchPart),
    Claim(Claim),
}

impl Message for ClaimOrPart {
    const NAME: &'static str = "a claim or a request for a part of a task";

    fn check(&self) -> Result<(), Unreadable> {
        match self {
            Self::Part(fetch) => fetch.check(),
            Self::Claim(claim) => claim.check(),
        }
    }
}

/// The answer to a [`Claim`] or a [`FetchPart`].
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Claimed {
    Granted(Box<Grant>),
    /// The task has ended, another worker executes it, or the owner must not start it now. If it
    /// still waits later, the owner offers it again.
    Gone,
    /// The worker may not execute the task; others may.
    Forbidden {
        reason: Forbidden,
    },
    /// A part of the task's text.
    Part {
        text: String,
    },
}

impl Message for Claimed {
    const NAME: &'static str = "an answer to a claim";

    fn check(&self) -> Result<(), Unreadable> {
        match self {
            Self::Granted(grant) => grant.check(),
            Self::Gone | Self::Forbidden { .. } | Self::Part { .. } => Ok(()),
        }
    }
}

/// One attempt at a task, granted to one worker.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    pub invocation: String,
    pub token: Token,
    /// How long the attempt is held, from when the claim was sent.
    pub hold_ms: u64,
    /// JSON text of an [`Assignment`]. Empty if it is fetched in parts.
    pub task: String,
    /// Bytes of the text that is fetched in parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts_of: Option<usize>,
    /// Largest fact in bytes that the owner takes in parts. Owners of earlier versions take none.
    #[serde(default)]
    pub largest_fact: usize,
    /// Whether the owner records facts that come with a question, and answers
    /// [`Question::ReserveAndCall`]. Owners of earlier versions do not.
    #[serde(default)]
    pub combines: bool,
}

impl Grant {
    fn check(&self) -> Result<(), Unreadable> {
        check_id("invocation", &self.invocation)?;
        self.token.check()
    }
}

impl Assignment {
    /// Reads the text of a task.
    ///
    /// # Errors
    /// It is of no use to this version.
    pub fn read(text: &str) -> Result<Self, Unreadable> {
        let task = serde_json::from_str(text);
        let task: Self = task.map_err(|_| Unreadable::Shape("a task"))?;
        check_id("task.run", task.run.as_str())?;
        Ok(task)
    }
}

/// Shows that a message is from the holder of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    #[serde(flatten)]
    pub worker: WorkerId,
    pub offer: String,
    pub invocation: String,
    pub token: Token,
}

impl Proof {
    fn check(&self) -> Result<(), Unreadable> {
        self.worker.check()?;
        check_id("offer", &self.offer)?;
        check_id("invocation", &self.invocation)?;
        self.token.check()
    }
}

/// A question to the run's budget, or to the limits of an endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    #[serde(flatten)]
    pub proof: Proof,
    /// Number of the question in the attempt. A repeated question gets the same answer.
    pub call: u64,
    pub question: Question,
    /// Facts that are recorded before the question is answered. Any answer but [`Answer::Wait`] and
    /// [`Answer::Superseded`] says that they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<NewFacts>,
}

impl Message for Ask {
    const NAME: &'static str = "a question to the budget";

    fn check(&self) -> Result<(), Unreadable> {
        self.proof.check()?;
        self.facts.as_ref().map_or(Ok(()), NewFacts::check)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// May a call with this estimate be made?
    Reserve(Amount),
    /// May a tool be called?
    Tool,
    /// May a call be retried?
    Retry,
    /// May a model be called now? The answer waits until its endpoint has room for the call.
    Call(ModelRole),
    /// [`Question::Reserve`], and may the call be made at once? The answer does not wait for the
    /// endpoint: [`Answer::Granted`] means that it has no room now.
    ReserveAndCall { amount: Amount, role: ModelRole },
}

impl Question {
    /// The estimate that is reserved if the question is granted.
    pub const fn reserves(&self) -> Option<Amount> {
        match self {
            Self::Reserve(amount) | Self::ReserveAndCall { amount, .. } => Some(*amount),
            Self::Tool | Self::Retry | Self::Call(_) => None,
        }
    }
}

/// The models that an attempt calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelRole {
    Agent,
    SimulatedUser,
}

/// The answer to [`Ask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    Granted,
    /// The estimate is reserved, and the call may be made.
    MayCall,
    Exhausted,
    /// The endpoint is down and is not called for some time.
    EndpointDown,
    /// Other calls must end first. The worker asks again.
    Wait,
    /// The attempt does not count any more.
    Superseded,
}

impl Message for Answer {
    const NAME: &'static str = "an answer of the budget";

    fn check(&self) -> Result<(), Unreadable> {
        Ok(())
    }
}

/// A worker is alive and executes these attempts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beat {
    #[serde(flatten)]
    pub worker: WorkerId,
    pub held: Vec<Held>,
}

/// An attempt in a [`Beat`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Held {
    pub offer: String,
    pub invocation: String,
    pub token: Token,
}

impl Message for Beat {
    const NAME: &'static str = "a heartbeat";

    fn check(&self) -> Result<(), Unreadable> {
        self.worker.check()?;
        check_most("held", self.held.len(), MAX_HELD)?;
        for held in &self.held {
            check_id("held.offer", &held.offer)?;
            check_id("held.invocation", &held.invocation)?;
            held.token.check()?;
        }
        Ok(())
    }
}

/// The answer to a [`Beat`]: one verdict for each attempt, in the order of the heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beaten {
    pub held: Vec<Verdict>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The attempt is held for this time, from when the heartbeat was sent.
    Keep { hold_ms: u64 },
    /// The owner keeps the attempt, but no call may be made now.
    Pause,
    /// The attempt does not count any more.
    Drop,
}

impl Message for Beaten {
    const NAME: &'static str = "an answer to a heartbeat";

    fn check(&self) -> Result<(), Unreadable> {
        check_most("held", self.held.len(), MAX_HELD)
    }
}

#[cfg(test)]
mod tests;
