//! Asking an agent: what is to be sent where, and what an answer is worth. Sending is others' work.
//!
//! [`Plan`] says whom to ask; [`jsonrpc`], [`http_json`] and [`grpc`] write the test message for each transport (A2A 0.3.0
//! §7.1) and judge the answer; [`Observation`] is what came of it all, and is scored by [`availability`].

pub mod availability;
pub mod cors;
pub mod exchange;
pub mod grpc;
pub mod http_json;
pub mod jsonrpc;
mod message;
mod plan;
mod protobuf;
mod tally;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use exchange::{Body, Headers, NoReply, Outcome, Reply};
pub use plan::{Interface, Plan, usable_url};

use super::transport::Transport;

/// What the test message says.
pub const TEST_TEXT: &str = "Hello. Please answer with one short sentence.";
/// What it asks to be answered in.
pub const ACCEPTED_OUTPUT: &str = "text/plain";

/// What came of asking an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// At its URL.
    pub endpoint: Endpoint,
    /// At its additional interfaces, by their places in the card, as far as there was time. One that is listed often was
    /// asked once, and is here once.
    pub interfaces: BTreeMap<usize, Arc<Probe>>,
    /// Whether the provider's site answered, if it was asked.
    pub provider_reachable: Option<bool>,
    /// Whether the card was only found where agents kept it before 0.3.0.
    pub legacy_path: bool,
}

/// What came of asking at the agent's URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// The card has no URL to ask at.
    Unusable,
    /// The guard refused it: its host is internal.
    Refused,
    /// It was asked.
    Asked(Box<Asked>),
}

/// Everything that was asked at the agent's URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The connection's encryption.
    pub tls: Tls,
    /// The test message.
    pub message: Probe,
    /// The origin it was sent with.
    pub origin: String,
    /// A browser's question whether it may send it.
    pub preflight: Outcome,
    /// A request that has to fail.
    pub error: Probe,
}

/// The encryption of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    /// The URL is not https.
    Absent,
    /// The handshake was good: chain, dates, name.
    Verified,
    /// The certificate was not accepted; the rest was asked all the same.
    Invalid,
    /// There was no handshake.
    NotReached,
}

/// One request and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The request's id, where the transport has one.
    pub request_id: String,
    /// What came of it.
    pub outcome: Outcome,
}

/// What the answer to a test message is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// It is a complete answer that is no fault of the server.
    pub responds: bool,
    /// It is what the transport promises.
    pub works: bool,
    /// A message or task in it is complete.
    pub structured: bool,
    /// It says what it is.
    pub typed: bool,
    /// It asks who is calling.
    pub auth_required: bool,
}

/// Judges the answer to a test message.
pub fn judge(transport: Transport, probe: &Probe) -> Judgement {
    let Ok(reply) = &probe.outcome else {
        return Judgement::default();
    };
    match transport {
        Transport::JsonRpc => jsonrpc::judge(reply, &probe.request_id),
        Transport::HttpJson => http_json::judge(reply),
        Transport::Grpc => grpc::judge(reply),
    }
}

/// Whether the answer to a request that has to fail says so as the transport does.
pub fn fails_well(transport: Transport, probe: &Probe) -> bool {
    let Ok(reply) = &probe.outcome else {
        return false;
    };
    let asks_who = reply.asks_for_credentials() && reply.headers.get("www-authenticate").is_some();
    asks_who
        || match transport {
            Transport::JsonRpc => jsonrpc::is_error(reply, &probe.request_id),
            Transport::HttpJson => http_json::is_error(reply),
            Transport::Grpc => grpc::is_error(reply),
        }
}

/// Whether a site answers: neither a fault of its own nor a page that is gone.
pub fn site_answers(outcome: &Outcome) -> bool {
    outcome
        .as_ref()
        .is_ok_and(|reply| reply.status < 500 && !matches!(reply.status, 404 | 410))
}
