//! Major 2 on the wire: requests into the form inside this host, which is that of major 1, and its
//! answers into the form of major 2.

use serde_json::Value;

use touchstone_kit::error::Problem;

/// Whom a request is answered for.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The tenant that ids in bodies name. Empty for operations that anyone may call.
    pub tenant: &'a str,
}

/// The parts of a request that are translated here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inner {
    pub query: Vec<(String, String)>,
    pub body: Option<Value>,
}

/// Why a request is not one of major 2.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// A `validation_error`.
    Invalid(Problem),
    /// An `id_tenant_mismatch` of this parameter or member.
    OtherTenant(String),
}

/// An answer that has no form under major 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unprojectable {
    /// The type of the event or of the answer.
    pub of: String,
    /// The members that major 2 has no place for.
    pub keys: Vec<String>,
}

/// The form of a request inside this host. `operation` is an id of the path manifest.
///
/// # Errors
/// The request is not one of major 2.
pub fn request(_operation: &str, _context: &Context<'_>, given: Inner) -> Result<Inner, Refusal> {
    Ok(given)
}

/// What an inner parser refuses, with the fields that the client sent.
pub fn refusal(_operation: &str, problem: Problem) -> Problem {
    problem
}

/// The form of an answer under major 2.
///
/// # Errors
/// The answer has a part that major 2 has no place for.
pub fn answer(
    _operation: &str,
    _context: &Context<'_>,
    _status: u16,
    body: Value,
) -> Result<Value, Unprojectable> {
    Ok(body)
}
