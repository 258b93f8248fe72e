//! The test over gRPC (A2A 0.3.0 §3.2.2): messages, their frames, and the status that ends a call.

use url::Url;

use super::exchange::{Body, Reply};
use super::protobuf::{self, Field};
use super::{ACCEPTED_OUTPUT, Judgement, TEST_TEXT};

/// The service's method for messages.
pub const SEND_MESSAGE: &str = "/a2a.v1.A2AService/SendMessage";
/// The service's method for tasks.
pub const GET_TASK: &str = "/a2a.v1.A2AService/GetTask";

/// `ROLE_USER`.
const ROLE_USER: u64 = 1;
const OK: u32 = 0;
const PERMISSION_DENIED: u32 = 7;
const UNAUTHENTICATED: u32 = 16;
/// Proper error statuses for a request for an unknown task: invalid argument, not found, permission
/// denied, failed precondition, unimplemented, unauthenticated.
const PROPER_ERRORS: [u32; 6] = [3, 5, PERMISSION_DENIED, 9, 12, UNAUTHENTICATED];
/// Bytes before a message: a compression flag and the length.
const FRAME_HEAD: usize = 5;

/// The URL of a method of the service at `interface`.
pub fn method_url(interface: &Url, method: &str) -> Url {
    let mut url = interface.clone();
    url.set_path(method);
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// The test message, framed.
pub fn message_request(message_id: &str) -> Vec<u8> {
    let part = protobuf::octets(1, TEST_TEXT.as_bytes());
    let message = [
        protobuf::octets(1, message_id.as_bytes()),
        protobuf::number(4, ROLE_USER),
        protobuf::octets(5, &part),
    ]
    .concat();
    let configuration = [
        protobuf::octets(1, ACCEPTED_OUTPUT.as_bytes()),
        protobuf::number(4, 1),
    ]
    .concat();
    let request = [
        protobuf::octets(1, &message),
        protobuf::octets(2, &configuration),
    ]
    .concat();
    framed(&request)
}

/// A request for an unknown task, framed.
pub fn task_request(task_id: &str) -> Vec<u8> {
    framed(&protobuf::octets(1, format!("tasks/{task_id}").as_bytes()))
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0], length.to_be_bytes().as_slice(), message].concat()
}

/// The only message of a body, if it is complete and not compressed.
fn unframed(body: &[u8]) -> Option<&[u8]> {
    let (head, message) = body.split_at_checked(FRAME_HEAD)?;
    let [0, length @ ..] = head else { return None };
    let length = u32::from_be_bytes(length.try_into().ok()?);
    (usize::try_from(length).ok()? == message.len()).then_some(message)
}

/// The status that ends the call: in the trailers, or in the headers if there are no trailers.
fn status(reply: &Reply) -> Option<u32> {
    let status = reply.trailers.get("grpc-status");
    status
        .or_else(|| reply.headers.get("grpc-status"))
        .and_then(|text| text.trim().parse().ok())
}

pub fn judge(reply: &Reply) -> Judgement {
    let status = status(reply);
    let works = status == Some(OK);
    let message = match &reply.body {
        Body::Whole(body) => unframed(body),
        Body::Oversized => None,
    };
    Judgement {
        responds: status.is_some(),
        works,
        structured: works && message.is_some_and(is_response),
        typed: status.is_some()
            && reply
                .media_type()
                .is_some_and(|it| it.starts_with("application/grpc")),
        auth_required: matches!(status, Some(PERMISSION_DENIED | UNAUTHENTICATED))
            || reply.asks_for_credentials(),
    }
}

/// Whether a message is a response that contains a task or a message.
fn is_response(message: &[u8]) -> bool {
    protobuf::fields(message).is_some_and(|fields| {
        fields
            .iter()
            .any(|field| matches!(field, Field::Octets(1 | 2)))
    })
}

/// Whether an answer is a proper error.
pub fn is_error(reply: &Reply) -> bool {
    status(reply).is_some_and(|status| PROPER_ERRORS.contains(&status))
}
