//! What the translations of requests and answers share.
//!
//! The layer of the host that serves major 2 calls [`request`](super::request) with query and body
//! before anything is looked up, and [`answer`](super::answer) with the body that the handler gave.
//! What an inner parser refuses, [`refusal`](super::refusal) gives the names that the client knows.
//! Operations are the ids of the path manifest.
//!
//! Three things are translated elsewhere. Ids in paths: the layer reads them with
//! [`wire::id`](crate::wire::id). Events: polls, streams, deliveries and differences of two runs write
//! them in the form of their major. Their sequences, and `fromSeq` of a fork: they depend on the
//! record of the run, which the handler has.

use serde_json::Value;

use crate::wire::id::{IdError, Seat, opaque};
use touchstone_kit::error::Problem;

/// What a translation depends on besides the request or answer.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The tenant that ids in bodies name. Empty for operations that anyone may call.
    pub tenant: &'a str,
}

/// The parts of a request that are translated here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inner {
    /// Decoded, in order.
    pub query: Vec<(String, String)>,
    pub body: Option<Value>,
}

impl Inner {
    /// The first value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut found = self.query.iter().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| value.as_str())
    }
}

/// Why a request is not one of major 2.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// A `validation_error`.
    Invalid(Problem),
    /// An `id_tenant_mismatch` of this parameter or member.
    OtherTenant(String),
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self::Invalid(problem)
    }
}

/// An answer that has no form under major 2 (`payload_unprojectable`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unprojectable {
    /// The type of the answer, such as `RunSnapshot`.
    pub of: String,
    /// The members that it lacks.
    pub keys: Vec<String>,
}

/// The opaque part of an id in a parameter or a member.
pub(super) fn opaque_id(
    tenant: &str,
    seat: Seat,
    field: &str,
    given: &str,
) -> Result<String, Refusal> {
    opaque(tenant, seat, given).map_err(|cause| match (cause, seat) {
        (IdError::OtherTenant, _) => Refusal::OtherTenant(field.to_owned()),
        (IdError::Malformed, Seat::Url) => {
            invalid(field, "must be an id with its tenant, such as TENANT~2FID")
        }
        (IdError::Malformed, Seat::Body) => {
            invalid(field, "must be an id with its tenant, such as TENANT/ID")
        }
    })
}

/// A validation error; `rule` continues the sentence that begins with the name of the field.
pub(super) fn invalid(field: &str, rule: &str) -> Refusal {
    Problem::validation(field, format!("`{field}` {rule}")).into()
}
