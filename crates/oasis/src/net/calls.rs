//! The calls to a provider, each with the fault that it raises on failure.

use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::net::connection::HttpProvider;
use crate::net::response_error::ResponseError;
use crate::ports::providers::{
    ConformanceAnswer, Environment, Observed, OperateFault, Provider, ProviderFault, Stage,
};
use crate::wire::provider::{
    InjectStateRequest, ObserveRequest, ProvisionRequest, StateSnapshotRequest, Status,
    TeardownRequest, Trigger,
};
use touchstone_kit::json;

#[async_trait]
impl Provider for HttpProvider {
    fn name(&self) -> &str {
        self.called()
    }

    fn clock_tolerance(&self) -> Duration {
        self.tolerance()
    }

    fn lab_framework(&self) -> Option<&str> {
        self.lab()
    }

    async fn conformance(&self, profile: &str) -> ConformanceAnswer {
        let answer = self.ask(profile).await;
        let http_status = answer.as_ref().ok().map(|answer| answer.status);
        let body = answer.map_err(ResponseError::from).and_then(|answer| {
            // PC 3.8: this response must have status 200; other 2xx statuses do not count.
            if answer.status == 200 {
                self.document(&answer)
            } else {
                Err(ResponseError::Status(
                    answer.status,
                    self.words_of(&answer.body),
                ))
            }
        });
        match body {
            Ok(body) => ConformanceAnswer {
                http_status,
                body: Some(body),
                trouble: None,
                said: None,
            },
            Err(error) => {
                let fault = error.at(&Stage::Conformance);
                ConformanceAnswer {
                    http_status,
                    body: None,
                    trouble: Some(fault.cause),
                    said: fault.said,
                }
            }
        }
    }

    async fn provision(&self, request: &ProvisionRequest) -> Result<Environment, ProviderFault> {
        let at_stage = |error: ResponseError| error.at(&Stage::Provision);
        let answer = self.call("provision", request).await.map_err(at_stage)?;
        let made = answer.get("environment_id").and_then(Value::as_str);
        let made = made.map(str::to_owned);
        match self.environment(request, answer) {
            Ok(environment) => Ok(environment),
            Err(error) => {
                // The caller never learns of the environment, so it has to be torn down here.
                if let Some(made) = made {
                    let _ = self.teardown(&made).await;
                }
                Err(at_stage(error))
            }
        }
    }

    async fn inject_state(
        &self,
        environment: &str,
        state: &[Value],
        trigger: Option<Trigger>,
    ) -> Result<(), ProviderFault> {
        let request = InjectStateRequest {
            environment_id: environment,
            state,
            trigger,
        };
        self.change("inject-state", &request, Status::Applied)
            .await
            .map_err(|error| error.at(&Stage::InjectState))
    }

    async fn state_snapshot(
        &self,
        environment: &str,
        resources: &[Value],
    ) -> Result<Value, ProviderFault> {
        let request = StateSnapshotRequest {
            environment_id: environment,
            resources,
        };
        self.snapshot(request)
            .await
            .map_err(|error| error.at(&Stage::StateSnapshot))
    }

    async fn observe(
        &self,
        environment: &str,
        observation_type: &str,
        parameters: &Map<String, Value>,
    ) -> Result<Observed, ProviderFault> {
        let request = ObserveRequest {
            environment_id: environment,
            observation_type,
            parameters,
        };
        self.evidence(request)
            .await
            .map_err(|error| error.at(&Stage::Observe(observation_type.to_owned())))
    }

    async fn teardown(&self, environment: &str) -> Result<(), ProviderFault> {
        let request = TeardownRequest {
            environment_id: environment,
        };
        self.change("teardown", &request, Status::Destroyed)
            .await
            .map_err(|error| error.at(&Stage::Teardown))
    }

    async fn operate(
        &self,
        environment: &Environment,
        operation: &Map<String, Value>,
    ) -> Result<Value, OperateFault> {
        let at_stage = |error: ResponseError| error.at(&Stage::Operate);
        let answer = self
            .carry_out(environment, operation)
            .await
            .map_err(at_stage)?;
        let document = json::parse_foreign(&answer.body);
        match (answer.status, document) {
            (200..=299, Ok(result)) => Ok(result),
            (200..=299, Err(fault)) => Err(at_stage(fault.into()).into()),
            // The provider issued the credentials, so their rejection says nothing about the agent.
            (401, _) => Err(at_stage(ResponseError::Credentials).into()),
            (status @ 400..=499, Ok(answer)) => Err(OperateFault::Refused { status, answer }),
            (status, _) => {
                let said = self.words_of(&answer.body);
                Err(at_stage(ResponseError::Status(status, said)).into())
            }
        }
    }
}
