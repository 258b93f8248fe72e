//! The endpoints: the evaluator's below `/v1`, the agent's below `/desks`, and a test's below
//! `/admin`.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr as _;
use std::sync::Arc;

use bytes::Bytes;
use clap::ValueEnum as _;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::conformance::Preflight;
use super::faults::{Fault, PLACES};
use super::house::{Given, House};

/// Maximum request size in bytes.
const LIMIT: usize = 4 << 20;

/// A provider that accepts calls until this value is dropped.
pub struct Served {
    pub address: SocketAddr,
    task: JoinHandle<Infallible>,
}

impl Served {
    /// Opens a house.
    ///
    /// # Errors
    /// The address is taken.
    pub async fn open(house: Arc<House>, address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    continue;
                };
                let house = house.clone();
                let service = service_fn(move |request| {
                    let house = house.clone();
                    async move { answer(&house, request).await }
                });
                let connection =
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                // Connection errors are left to the caller; some faults drop the connection on
                // purpose.
                tokio::spawn(async move { drop(connection.await) });
            }
        });
        Ok(Self { address, task })
    }

    /// Serves until the process ends.
    #[allow(dead_code, reason = "tests serve for as long as they take")]
    pub async fn forever(mut self) {
        let _ = (&mut self.task).await;
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Closes the connection without a response.
#[derive(Debug, thiserror::Error)]
#[error("the connection is dropped on purpose")]
struct Dropped;

fn plain(status: u16, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn document((status, document): Given) -> Response<Full<Bytes>> {
    plain(status, document.to_string())
}

/// The response of a fault that does not depend on the call; `None` if the call proceeds.
async fn disturbed(house: &House, effect: &str) -> Result<Option<Response<Full<Bytes>>>, Dropped> {
    let sorry = |status| {
        document((
            status,
            json!({"status": "error", "error": "a switch is set"}),
        ))
    };
    Ok(Some(match effect {
        "http-404" => sorry(404),
        "http-500" => sorry(500),
        "http-503" => sorry(503),
        "status-error" => sorry(200),
        "not-json" => plain(200, "<p>closed on Mondays</p>".to_owned()),
        "hang" => {
            tokio::time::sleep(house.hang()).await;
            sorry(504)
        }
        "drop" => return Err(Dropped),
        _ => return Ok(None),
    }))
}

async fn answer(
    house: &House,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Dropped> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let bytes = Limited::new(body, LIMIT).collect().await;
    let bytes = bytes.map(|it| it.to_bytes()).unwrap_or_default();
    if parts.method == Method::GET {
        return looked_at(house, &path, parts.uri.query().unwrap_or_default()).await;
    }
    let Ok(body @ Value::Object(_)) = serde_json::from_slice::<Value>(&bytes) else {
        return Ok(document((
            400,
            json!({"status": "error", "error": "the body is not a JSON object"}),
        )));
    };
    if path == "/admin/switches" {
        return Ok(document(switched(house, &body)));
    }
    if let Some(id) = path
        .strip_prefix("/desks/")
        .and_then(|rest| rest.strip_suffix("/ops"))
    {
        let bearer = parts
            .headers
            .get(AUTHORIZATION)
            .and_then(|it| it.to_str().ok());
        return Ok(document(house.operate(
            id,
            bearer.unwrap_or_default(),
            &body,
        )));
    }
    let call = path
        .strip_prefix("/v1/")
        .filter(|call| PLACES.contains(call));
    let Some(call) = call.filter(|_| parts.method == Method::POST) else {
        return Ok(document((404, json!({"error": "there is nothing here"}))));
    };
    let effect = house.arrives(call, &body);
    if let Some(effect) = &effect
        && let Some(response) = disturbed(house, effect).await?
    {
        return Ok(response);
    }
    Ok(document(house.carry_out(call, &body, effect.as_deref())))
}

async fn looked_at(
    house: &House,
    path: &str,
    query: &str,
) -> Result<Response<Full<Bytes>>, Dropped> {
    let given = match path {
        "/admin/calls" => json!({"calls": house.calls()}),
        "/admin/environments" => json!({"live": house.open()}),
        "/admin/literals" => json!({"literals": house.literals()}),
        "/v1/conformance" => {
            let profile = query.split('&').find_map(|it| it.strip_prefix("profile="));
            let Some(profile) = profile else {
                return Ok(document((400, json!({"error": "which profile?"}))));
            };
            let (wrong, said) = house.conformance(profile);
            let effect = wrong.to_possible_value().map(|it| it.get_name().to_owned());
            let effect = effect.unwrap_or_default();
            match disturbed(house, &effect).await? {
                Some(response) => return Ok(response),
                None => said,
            }
        }
        _ => return Ok(document((404, json!({"error": "there is nothing here"})))),
    };
    Ok(document((200, given)))
}

/// `{"preflight": MODE, "faults": [SPEC, …]}`, both members optional.
fn switched(house: &House, body: &Value) -> Given {
    let preflight = match body.get("preflight").and_then(Value::as_str) {
        None => Ok(Preflight::Ok),
        Some(name) => Preflight::from_str(name, false),
    };
    let faults = body
        .get("faults")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let faults: Result<Vec<Fault>, String> = faults
        .iter()
        .map(|it| Fault::from_str(it.as_str().unwrap_or_default()))
        .collect();
    match (preflight, faults) {
        (Ok(preflight), Ok(faults)) => {
            house.disturb(preflight, faults);
            (200, json!({"status": "set"}))
        }
        (Err(wrong), _) | (_, Err(wrong)) => (400, json!({"error": wrong})),
    }
}
