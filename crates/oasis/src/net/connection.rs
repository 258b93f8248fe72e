//! The connection to one provider: the destination and headers of calls, and the rules for
//! responses.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::net::destinations::AllowedDestinations;
use crate::net::response_error::ResponseError;
use crate::net::{ProviderAccess, SetupError};
use crate::ports::providers::{Environment, Observed, ProviderText};
use crate::rules::scrub::Scrub;
use crate::wire::provider;
use crate::wire::provider::{
    ContractViolation, Object, ObservationResponse, ObserveRequest, ProvisionRequest,
    ProvisionResponse, ProvisionStatus, StateSnapshotRequest, StateSnapshotResponse, Status,
    StatusResponse,
};
use touchstone_host::net::error::Error;
use touchstone_host::net::policy::Policy;
use touchstone_host::net::{Answer, Client};
use touchstone_kit::json;

/// A provider over HTTP.
pub struct HttpProvider {
    name: String,
    places: AllowedDestinations,
    client: Client,
    headers: HeaderMap,
    clock_tolerance: Duration,
    lab_framework: Option<String>,
    /// Removes the evaluator's token if the provider repeats it, so that it reaches no log.
    scrub: Scrub,
}

impl fmt::Debug for HttpProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpProvider")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl HttpProvider {
    /// Sets up the connection.
    ///
    /// # Errors
    /// The provider cannot be used.
    pub fn new(access: ProviderAccess) -> Result<Self, SetupError> {
        let name = access.name;
        let unusable = |cause| SetupError::Net {
            name: name.clone(),
            cause,
        };
        let client = Client::new(Policy {
            max_response_bytes: access.max_response_bytes,
            ..Policy::model(access.timeout, 0)
        })
        .map_err(unusable)?;
        let places =
            AllowedDestinations::new(access.url, access.agent_origins).map_err(unusable)?;
        let token = access.token.as_ref().map(ExposeSecret::expose_secret);
        let scrub = Scrub::of(token.map(str::to_owned));
        let headers = match &access.token {
            None => plain(),
            Some(token) => {
                bearing(token).ok_or_else(|| SetupError::Token { name: name.clone() })?
            }
        };
        Ok(Self {
            places,
            client,
            headers,
            clock_tolerance: access.clock_tolerance,
            lab_framework: access.lab_framework,
            name,
            scrub,
        })
    }

    /// The operator's name for the provider.
    pub(super) fn called(&self) -> &str {
        &self.name
    }

    /// Maximum difference between the provider's and the host's clock.
    pub(super) fn tolerance(&self) -> Duration {
        self.clock_tolerance
    }

    /// The operator's declaration about the provider's lab.
    pub(super) fn lab(&self) -> Option<&str> {
        self.lab_framework.as_deref()
    }

    /// Asks for the provider's support of a profile; accepts any status.
    pub(super) async fn ask(&self, profile: &str) -> Result<Answer, Error> {
        let mut url = self.places.below("conformance")?;
        url.query_pairs_mut().append_pair("profile", profile);
        self.client.get(&url, &self.headers).await
    }

    /// A call of the evaluator. Success is any 2xx status with a document.
    pub(super) async fn call(
        &self,
        call: &str,
        request: &impl Serialize,
    ) -> Result<Value, ResponseError> {
        let url = self.places.below(call)?;
        let body = serde_json::to_vec(request).map_err(|_| ResponseError::Unwritable)?;
        let answer = self.client.post(&url, &self.headers, body).await?;
        match answer.status {
            200..=299 => self.document(&answer),
            status => Err(ResponseError::Status(status, self.words_of(&answer.body))),
        }
    }

    /// The document in a response to the evaluator.
    pub(super) fn document(&self, answer: &Answer) -> Result<Value, ResponseError> {
        let mut document = json::parse_foreign(&answer.body)?;
        self.scrub.value(&mut document);
        Ok(document)
    }

    /// The provider's error message in a failed response: its error member, or its text.
    pub(super) fn words_of(&self, body: &[u8]) -> Option<ProviderText> {
        match json::parse_foreign(body) {
            Ok(document) => self.words_in(&document),
            Err(_) => self.words(&String::from_utf8_lossy(body)),
        }
    }

    /// The error message in a document.
    fn words_in(&self, document: &Value) -> Option<ProviderText> {
        const MEMBERS: [&str; 4] = ["error", "message", "reason", "detail"];
        let said = |value: &Value| {
            let mut members = MEMBERS.iter().filter_map(|name| value.get(name));
            members.find(|it| !it.is_null()).cloned()
        };
        let found = said(document)?;
        let inner = said(&found).unwrap_or(found);
        match inner.as_str() {
            Some(text) => self.words(text),
            None => self.words(&inner.to_string()),
        }
    }

    fn words(&self, text: &str) -> Option<ProviderText> {
        ProviderText::new(&self.scrub.text(text))
    }

    pub(super) async fn change(
        &self,
        call: &str,
        request: &impl Serialize,
        expected: Status,
    ) -> Result<(), ResponseError> {
        let answer: StatusResponse = provider::read(self.call(call, request).await?)?;
        match answer.status {
            status if status == expected => Ok(()),
            Status::Error => Err(ResponseError::Declined(
                answer.error.as_deref().and_then(|it| self.words(it)),
            )),
            _ => Err(ResponseError::OtherStatus),
        }
    }

    pub(super) fn environment(
        &self,
        request: &ProvisionRequest,
        answer: Value,
    ) -> Result<Environment, ResponseError> {
        let answer: ProvisionResponse = provider::read(answer)?;
        if answer.status == ProvisionStatus::Error {
            let said = answer.error.as_deref().and_then(|it| self.words(it));
            return Err(ResponseError::Declined(said));
        }
        let id = answer
            .environment_id
            .ok_or(ContractViolation::at("environment_id"))?;
        let endpoint = answer
            .agent_endpoint
            .ok_or(ContractViolation::at("agent_endpoint"))?;
        let Object(credentials) = answer
            .agent_credentials
            .ok_or(ContractViolation::at("agent_credentials"))?;
        let token = credentials.token.map(|token| token.0);
        if token.as_ref().is_some_and(|token| bearing(token).is_none()) {
            return Err(ResponseError::Token);
        }
        let mut containment: BTreeMap<String, Vec<SecretString>> = BTreeMap::new();
        for Object(value) in answer.containment_values {
            let literals = value.literals.into_iter().map(|literal| literal.0);
            containment
                .entry(value.value_ref)
                .or_default()
                .extend(literals);
        }
        let asked = request.value_containment.iter().map(|it| &it.value_ref);
        if !asked.clone().all(|value| containment.contains_key(value)) {
            return Err(ResponseError::Unresolved);
        }
        containment.retain(|value, _| asked.clone().any(|it| it == value));
        Ok(Environment {
            id,
            endpoint: self.places.agent(&endpoint)?,
            token,
            principal: credentials.principal,
            containment,
        })
    }

    pub(super) async fn evidence(
        &self,
        request: ObserveRequest<'_>,
    ) -> Result<Observed, ResponseError> {
        let answer = self.call("observe", &request).await?;
        let said = self.words_of_source(&answer);
        let answer: ObservationResponse = provider::read(answer)?;
        if answer.environment_id != request.environment_id {
            return Err(ResponseError::OtherEnvironment);
        }
        if answer.observation_type != request.observation_type {
            return Err(ResponseError::OtherObservation);
        }
        // D6: every status other than `available` is a fault, never an empty observation.
        let Object(source) = answer.evidence_source.ok_or(ResponseError::NoSource)?;
        let status = source.status.ok_or(ResponseError::NoStatus)?;
        if let Some(error) = ResponseError::of_source(status, said) {
            return Err(error);
        }
        Ok(Observed {
            observation_type: answer.observation_type,
            timestamp: answer.timestamp,
            data: answer.data,
            source_type: source.kind,
            status: "available".to_owned(),
        })
    }

    /// The provider's explanation of an unavailable source, including a status that no version of
    /// the protocol defines.
    fn words_of_source(&self, answer: &Value) -> Option<ProviderText> {
        let source = answer.get("evidence_source")?;
        let status = source.get("status").and_then(Value::as_str)?;
        let known = ["available", "unreachable", "partial", "empty_window"].contains(&status);
        let status = (!known).then(|| format!("status `{status}`"));
        let said = self.words_in(source).or_else(|| self.words_in(answer));
        let said = said.map(ProviderText::into_read);
        let all: Vec<String> = status.into_iter().chain(said).collect();
        self.words(&all.join(": "))
    }

    pub(super) async fn snapshot(
        &self,
        request: StateSnapshotRequest<'_>,
    ) -> Result<Value, ResponseError> {
        let answer = self.call("state-snapshot", &request).await?;
        let head: StateSnapshotResponse = match provider::read(&answer) {
            // The contract defines no error status here, but providers send one anyway.
            Err(_) if answer.get("status").is_some_and(|it| it == "error") => {
                return Err(ResponseError::Declined(self.words_in(&answer)));
            }
            head => head?,
        };
        if head.environment_id == request.environment_id {
            Ok(answer)
        } else {
            Err(ResponseError::OtherEnvironment)
        }
    }

    pub(super) async fn carry_out(
        &self,
        environment: &Environment,
        operation: &Map<String, Value>,
    ) -> Result<Answer, ResponseError> {
        let headers = match &environment.token {
            None => plain(),
            Some(token) => bearing(token).ok_or(ResponseError::Token)?,
        };
        let body = serde_json::to_vec(operation).map_err(|_| ResponseError::Unwritable)?;
        let answer = self.client.post(&environment.endpoint, &headers, body);
        Ok(answer.await?)
    }
}

/// Headers of a document without credentials.
fn plain() -> HeaderMap {
    let json = HeaderValue::from_static("application/json");
    HeaderMap::from_iter([(ACCEPT, json.clone()), (CONTENT_TYPE, json)])
}

/// Headers of a document with a bearer token, if the token is valid in a header.
fn bearing(token: &SecretString) -> Option<HeaderMap> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret())).ok()?;
    value.set_sensitive(true);
    let mut headers = plain();
    headers.insert(AUTHORIZATION, value);
    Some(headers)
}
