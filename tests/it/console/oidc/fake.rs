//! A small OpenID provider that answers as a test says, also wrongly.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::{Signer as _, SigningKey};
use serde_json::{Value, json};

/// A key of the provider, with its id.
#[derive(Clone)]
pub struct Key {
    pub id: &'static str,
    secret: SigningKey,
}

impl Key {
    pub fn new(id: &'static str, byte: u8) -> Self {
        let secret = SigningKey::from_bytes(&[byte; 32]);
        Self { id, secret }
    }

    fn public(&self) -> Value {
        let x = URL_SAFE_NO_PAD.encode(self.secret.verifying_key().as_bytes());
        json!({"kty": "OKP", "crv": "Ed25519", "use": "sig", "alg": "EdDSA", "kid": self.id, "x": x})
    }

    /// A token signed by this key.
    pub fn sign(&self, claims: &Value) -> String {
        let header = json!({"alg": "EdDSA", "typ": "JWT", "kid": self.id});
        let text = unsigned(&header, claims);
        let signature = self.secret.sign(text.as_bytes()).to_bytes();
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// The part of a token that is signed.
pub fn unsigned(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", part(header), part(claims))
}

type Form = BTreeMap<String, String>;

pub struct FakeProvider {
    pub issuer: String,
    told: Arc<Told>,
}

struct Told {
    issuer: String,
    /// The key that it publishes.
    key: Mutex<Key>,
    token: Mutex<(StatusCode, Value)>,
    userinfo: Mutex<Value>,
    /// What was sent to the token endpoint.
    forms: Mutex<Vec<Form>>,
}

impl FakeProvider {
    pub async fn start(key: Key) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let told = Arc::new(Told {
            issuer: issuer.clone(),
            key: Mutex::new(key),
            token: Mutex::new((StatusCode::INTERNAL_SERVER_ERROR, Value::Null)),
            userinfo: Mutex::new(Value::Null),
            forms: Mutex::default(),
        });
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(configuration))
            .route("/keys", get(keys))
            .route("/token", post(token))
            .route("/userinfo", get(userinfo))
            .with_state(told.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { issuer, told }
    }

    /// What the token endpoint answers from now on.
    pub fn answer(&self, status: StatusCode, body: Value) {
        *self.told.token.lock().unwrap() = (status, body);
    }

    /// The token endpoint answers with this ID token.
    pub fn give(&self, id_token: &str) {
        let body = json!({"access_token": "access", "token_type": "Bearer", "id_token": id_token});
        self.answer(StatusCode::OK, body);
    }

    pub fn publish(&self, key: Key) {
        *self.told.key.lock().unwrap() = key;
    }

    pub fn tell(&self, userinfo: Value) {
        *self.told.userinfo.lock().unwrap() = userinfo;
    }

    pub fn forms(&self) -> Vec<Form> {
        self.told.forms.lock().unwrap().clone()
    }
}

async fn configuration(State(told): State<Arc<Told>>) -> Json<Value> {
    let at = |path: &str| format!("{}{path}", told.issuer);
    Json(json!({
        "issuer": told.issuer,
        "authorization_endpoint": at("/authorize"),
        "token_endpoint": at("/token"),
        "jwks_uri": at("/keys"),
        "userinfo_endpoint": at("/userinfo"),
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        // Also what no token may be signed with.
        "id_token_signing_alg_values_supported": ["EdDSA", "HS256", "none"],
    }))
}

async fn keys(State(told): State<Arc<Told>>) -> Json<Value> {
    Json(json!({"keys": [told.key.lock().unwrap().public()]}))
}

async fn token(State(told): State<Arc<Told>>, body: String) -> (StatusCode, Json<Value>) {
    let form = url::form_urlencoded::parse(body.as_bytes()).into_owned();
    told.forms.lock().unwrap().push(form.collect());
    let (status, body) = told.token.lock().unwrap().clone();
    (status, Json(body))
}

async fn userinfo(State(told): State<Arc<Told>>) -> Json<Value> {
    Json(told.userinfo.lock().unwrap().clone())
}
