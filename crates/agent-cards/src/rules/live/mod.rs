//! Live tests of an agent: the requests to send, and the judgement of answers. Other modules send
//! the requests.
//!
//! [`Plan`] lists the URLs to call; [`jsonrpc`], [`http_json`] and [`grpc`] write the test message
//! for each transport (A2A 0.3.0 §7.1) and judge the answer; [`Observation`] collects the results,
//! and [`availability`] scores them.

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

/// Text of the test message.
pub const TEST_TEXT: &str = "Hello. Please answer with one short sentence.";
/// Accepted output mode of the test message.
pub const ACCEPTED_OUTPUT: &str = "text/plain";

/// The results of a live test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Results at the agent's URL.
    pub endpoint: Endpoint,
    /// Results at the additional interfaces, by their index in the card, up to the time
    /// limit. An interface that is listed several times is tested and recorded once.
    pub interfaces: BTreeMap<usize, Arc<Probe>>,
    /// Whether the provider's site answered; `None` if it was not called.
    pub provider_reachable: Option<bool>,
    /// Whether the card was only found at the path used before 0.3.0.
    pub legacy_path: bool,
}

/// Result at the agent's URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// The card has no URL that can be called.
    Unusable,
    /// The guard refused the URL: its host is internal.
    Refused,
    Tested(Box<LiveRequests>),
}

/// All requests to the agent's URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveRequests {
    pub tls: Tls,
    pub message: Probe,
    /// The origin that the test message was sent with.
    pub origin: String,
    /// The CORS preflight for the test message.
    pub preflight: Outcome,
    /// A request that must fail.
    pub error: Probe,
}

/// The encryption of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    /// The URL is not https.
    Absent,
    /// The handshake succeeded: chain, dates and name are valid.
    Verified,
    /// The certificate was not accepted; the other requests were sent anyway.
    Invalid,
    /// The handshake did not take place.
    NotReached,
}

/// A request and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The request's id, if the transport has one.
    pub request_id: String,
    pub outcome: Outcome,
}

/// The judgement of an answer to a test message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// The answer is complete and is not a server error.
    pub responds: bool,
    /// The answer conforms to the transport.
    pub works: bool,
    /// The answer contains a complete message or task.
    pub structured: bool,
    /// The answer has the right content type.
    pub typed: bool,
    /// The answer asks for credentials.
    pub auth_required: bool,
}

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

/// Whether the answer to a request that must fail is a proper error of the transport.
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

/// Whether a site answers: neither with a server error nor with a missing page.
pub fn site_answers(outcome: &Outcome) -> bool {
    outcome
        .as_ref()
        .is_ok_and(|reply| reply.status < 500 && !matches!(reply.status, 404 | 410))
}
