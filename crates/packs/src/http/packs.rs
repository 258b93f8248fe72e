//! Packs: install an upload, list, remove.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::http::PacksApi;
use crate::rules::name::PackId;
use crate::rules::verify::{Fetched, verify};
use crate::service::packs::{Actor, Candidate};
use touchstone_host::http::answer::{Answer, json};
use touchstone_host::http::extract::{IdempotencyKey, JsonBody, PathParameters, members};
use touchstone_host::http::idempotency::{Done, once};
use touchstone_host::service::access::Caller;
use touchstone_host::service::fault::internal;
use touchstone_kit::error::{ErrorCode, Problem};

/// `GET /v1/host/touchstone/packs`.
pub async fn list(
    State(state): State<Arc<PacksApi>>,
    Extension(caller): Extension<Caller>,
) -> Answer {
    let packs = state.packs.list(&caller.tenant).await?;
    json(StatusCode::OK, &json!({"packs": packs}))
}

/// `POST /v1/host/touchstone/packs`.
pub async fn install(
    State(state): State<Arc<PacksApi>>,
    Extension(caller): Extension<Caller>,
    IdempotencyKey(key): IdempotencyKey,
    JsonBody(body): JsonBody,
) -> Answer {
    let upload = Upload::parse(members(&body)?)?;
    let (api, by) = (state.clone(), Actor::of(&caller));
    let endpoint = "POST /v1/host/touchstone/packs".to_owned();
    once(&state.host, &caller, endpoint, key, &body, |_| async move {
        let turn = api.host.limits.pack_turn().await?;
        let judge = api.clone();
        // Unpacking and hashing may take a while, so they run on a blocking thread. That thread
        // holds the turn: it continues when the client disconnects.
        let judging = tokio::task::spawn_blocking(move || (upload.verify(&judge), turn));
        let (candidate, _turn) = judging.await.map_err(|cause| internal(&cause))?;
        let facts = api.packs.install(&by, &candidate?).await?;
        let facts = serde_json::to_value(facts).map_err(|cause| internal(&cause))?;
        Ok(Done::new(StatusCode::CREATED, facts))
    })
    .await
}

/// `DELETE /v1/host/touchstone/packs/{name}/{version}`.
pub async fn remove(
    State(state): State<Arc<PacksApi>>,
    Extension(caller): Extension<Caller>,
    path: PathParameters,
    IdempotencyKey(key): IdempotencyKey,
) -> Answer {
    let pack = PackId::new(path.get("name"), path.get("version"))
        .ok_or_else(|| Problem::new(ErrorCode::NotFound, "no such pack is installed"))?;
    let endpoint = format!(
        "DELETE /v1/host/touchstone/packs/{}/{}",
        pack.name, pack.version
    );
    let (packs, by) = (state.packs.clone(), Actor::of(&caller));
    once(
        &state.host,
        &caller,
        endpoint,
        key,
        &Value::Null,
        |_| async move {
            packs.remove(&by, &pack).await?;
            Ok(Done::new(StatusCode::OK, json!({"removed": true})))
        },
    )
    .await
}

struct Upload {
    tgz: Bytes,
    served: Option<Vec<u8>>,
    signature: Option<Vec<u8>>,
}

impl Upload {
    fn parse(body: &Map<String, Value>) -> Result<Self, Problem> {
        const FIELDS: [&str; 3] = ["tarball", "served", "signature"];
        if let Some(unknown) = body.keys().find(|key| !FIELDS.contains(&key.as_str())) {
            let known = FIELDS.join(", ");
            return Err(Problem::validation(
                unknown,
                format!("unknown field; known fields are {known}"),
            ));
        }
        let tgz = octets(body, "tarball")?.ok_or_else(|| {
            Problem::validation("tarball", "`tarball` is required: the archive in base64")
        })?;
        Ok(Self {
            tgz: tgz.into(),
            served: octets(body, "served")?,
            signature: octets(body, "signature")?,
        })
    }

    fn verify(self, state: &PacksApi) -> Result<Candidate, Problem> {
        let fetched = Fetched {
            served: self.served.as_deref(),
            tgz: &self.tgz,
            signature: self.signature.as_deref(),
        };
        let rules = &state.pack_rules;
        let pack = verify(
            None,
            fetched,
            &rules.trust,
            &rules.policy,
            rules.lockfile.as_ref(),
            state.packs.format(),
        )?;
        Ok(Candidate {
            pack,
            tgz: self.tgz,
        })
    }
}

fn octets(body: &Map<String, Value>, field: &str) -> Result<Option<Vec<u8>>, Problem> {
    match body.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value
            .as_str()
            .and_then(|text| STANDARD.decode(text).ok())
            .map(Some)
            .ok_or_else(|| {
                Problem::validation(field, format!("`{field}` must be base64 with padding"))
            }),
    }
}
