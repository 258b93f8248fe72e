//! Availability: the points that each kind of answer costs, over each transport.

mod endpoint;
mod grpc;
mod http_json;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use touchstone_agent_cards::rules::live::{
    Body, Endpoint, Headers, LiveRequests, NoReply, Observation, Outcome, Probe, Reply, Tls,
};
use touchstone_agent_cards::rules::{Context, Live, Scorecard, score};

use super::fixture::{card, keys, now};

pub const ID: &str = "request-1";
pub const ORIGIN: &str = "https://touchstone.invalid";

pub fn message() -> Value {
    json!({"kind": "message", "messageId": "m", "role": "agent", "parts": [{"kind": "text", "text": "Aye."}]})
}

pub fn task() -> Value {
    json!({"kind": "task", "id": "t", "contextId": "c", "status": {"state": "completed"}})
}

pub fn rpc(result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": ID, "result": result})
}

pub fn open_headers() -> [(&'static str, &'static str); 2] {
    [
        ("content-type", "application/json"),
        ("access-control-allow-origin", "*"),
    ]
}

pub fn reply(status: u16, body: impl Into<Vec<u8>>) -> Reply {
    Reply {
        status,
        headers: open_headers().into_iter().collect(),
        body: Body::Whole(body.into()),
        trailers: Headers::default(),
        elapsed_ms: 120,
    }
}

pub fn json_reply(status: u16, body: &Value) -> Reply {
    reply(status, serde_json::to_vec(body).unwrap())
}

pub fn probe(outcome: Outcome) -> Probe {
    Probe {
        request_id: ID.to_owned(),
        outcome,
    }
}

pub fn preflight() -> Reply {
    let headers = [
        ("access-control-allow-origin", ORIGIN),
        (
            "access-control-allow-headers",
            "authorization, Content-Type",
        ),
    ];
    Reply {
        headers: headers.into_iter().collect(),
        ..reply(204, "")
    }
}

pub fn unknown_method() -> Value {
    json!({"jsonrpc": "2.0", "id": ID, "error": {"code": -32601, "message": "unknown"}})
}

/// A perfect result, including the second interface of the card.
pub fn asked() -> LiveRequests {
    LiveRequests {
        tls: Tls::Verified,
        message: probe(Ok(json_reply(200, &rpc(&message())))),
        origin: ORIGIN.to_owned(),
        preflight: Ok(preflight()),
        error: probe(Ok(json_reply(200, &unknown_method()))),
    }
}

pub fn rest_probe() -> Probe {
    probe(Ok(json_reply(200, &json!({"message": message()}))))
}

pub fn seen(asked: LiveRequests) -> Observation {
    Observation {
        endpoint: Endpoint::Tested(Box::new(asked)),
        interfaces: BTreeMap::from([(1, rest_probe().into())]),
        provider_reachable: None,
        legacy_path: false,
    }
}

pub fn scored_of(card: &Value, seen: &Observation) -> Scorecard {
    let keys = keys();
    let context = Context {
        now: now(),
        keys: Some(&keys),
        live: Live::Seen(seen),
    };
    score(&serde_json::to_vec(card).unwrap(), &context)
}

pub fn found(scorecard: &Scorecard) -> Vec<String> {
    let mut issues = super::fixture::issues(scorecard);
    issues.retain(|it| it != "SIGNATURES_ABSENT /signatures");
    issues
}

/// The total, the band and the findings.
pub fn outcome(seen: &Observation) -> (String, Value, Vec<String>) {
    let scorecard = scored_of(&card(), seen);
    let of = &scorecard.availability;
    let rating = serde_json::to_value(of.rating).unwrap();
    (of.total.unwrap().to_string(), rating, found(&scorecard))
}

/// Result with this response body.
pub fn answering(body: Value) -> LiveRequests {
    LiveRequests {
        message: probe(Ok(json_reply(200, &body))),
        ..asked()
    }
}

pub fn with(change: impl FnOnce(&mut LiveRequests)) -> LiveRequests {
    let mut asked = asked();
    change(&mut asked);
    asked
}

pub fn on_message(change: impl FnOnce(&mut Reply)) -> LiveRequests {
    with(|asked| change(asked.message.outcome.as_mut().unwrap()))
}

pub fn failing(status: u16) -> LiveRequests {
    let answer = Reply {
        headers: [
            ("content-type", "text/html"),
            ("access-control-allow-origin", "*"),
        ]
        .into_iter()
        .collect(),
        ..reply(status, "<p>sorry</p>")
    };
    LiveRequests {
        message: probe(Ok(answer.clone())),
        error: probe(Ok(answer)),
        ..asked()
    }
}

pub fn silent(why: NoReply, tls: Tls) -> LiveRequests {
    LiveRequests {
        tls,
        message: probe(Err(why)),
        origin: ORIGIN.to_owned(),
        preflight: Err(NoReply::NotSent),
        error: probe(Err(NoReply::NotSent)),
    }
}
