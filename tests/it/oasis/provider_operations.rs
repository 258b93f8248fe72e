//! Operations of the agent: requests to the agent's endpoint, and their responses.

use std::collections::BTreeMap;

use rstest::rstest;
use secrecy::SecretString;
use serde_json::{Map, json};
use touchstone_oasis::ports::providers::{
    Environment, OperateFault, Provider as _, ProviderFault, Stage,
};
use url::Url;
use wiremock::matchers::{body_json, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::provider::{MOST, client_of, endless, mocked, object};
use crate::agent::raw_server::{Act, RawServer, Then};

fn environment(endpoint: Url, token: Option<&str>) -> Environment {
    Environment {
        id: "e-1".to_owned(),
        endpoint,
        token: token.map(SecretString::from),
        principal: None,
        containment: BTreeMap::new(),
    }
}

#[rstest]
#[case(Some("agent-canary"))]
#[case(None)]
#[tokio::test]
async fn an_operation_goes_with_the_agents_credentials_and_no_others(#[case] token: Option<&str>) {
    let server = MockServer::start().await;
    let operation = json!({"verb": "get", "resource": "record/a"});
    Mock::given(method("POST"))
        .and(path("/env/e-1/ops"))
        .and(body_json(&operation))
        .respond_with(ResponseTemplate::new(200).set_body_json(json!(["anything"])))
        .mount(&server)
        .await;
    let endpoint = format!("{}/env/e-1/ops", server.uri()).parse().unwrap();
    let provider = mocked(&server).await;
    let environment = environment(endpoint, token);
    let result = provider.operate(&environment, &object(operation)).await;
    assert_eq!(result.unwrap(), json!(["anything"]));
    let requests = server.received_requests().await.unwrap();
    let sent: Vec<_> = requests[0]
        .headers
        .get_all("authorization")
        .iter()
        .collect();
    let expected = token.map(|token| format!("Bearer {token}"));
    assert_eq!(sent, expected.iter().collect::<Vec<_>>());
    assert_eq!(requests.len(), 1);
}

async fn operate(act: Act) -> OperateFault {
    let server = RawServer::play(vec![act.clone()]).await;
    let environment = environment(server.url("/ops"), Some("agent-canary"));
    let client = client_of(&server, &act);
    let fault = client.operate(&environment, &Map::new()).await;
    assert_eq!(server.requests(), 1);
    fault.unwrap_err()
}

#[rstest]
#[tokio::test]
async fn an_operation_that_is_refused_is_an_answer_for_the_agent(
    #[values(400, 403, 404, 409, 422, 429)] status: u16,
) {
    let answer = json!({"error": "read only"});
    assert_eq!(
        operate(Act::json(status, &answer.to_string())).await,
        OperateFault::Refused { status, answer }
    );
}

#[rstest]
#[case::broken(Act::json(500, r#"{"error": "canary"}"#), "HTTP 500")]
#[case::redirect(Act::answer(308, "location: /canary\r\n", ""), "HTTP 308")]
#[case::not_there(Act::answer(404, "", "canary"), "HTTP 404")]
#[case::not_json(Act::answer(200, "", "canary"), "not JSON")]
#[case::hang(Act::new("", Then::Hang), "timed out")]
#[case::drop(Act::new("", Then::Close), "connection lost")]
#[case::too_large(Act::json(200, &endless(MOST)), "the body is larger than 4096 bytes")]
#[case::credentials(
    Act::json(401, r#"{"error": "canary"}"#),
    "the environment rejects the credentials that were issued with it"
)]
#[tokio::test]
async fn an_operation_that_may_have_happened_is_a_fault_of_the_provider(
    #[case] act: Act,
    #[case] cause: &str,
) {
    let fault = operate(act).await;
    assert!(!format!("{fault:?}").contains("canary"));
    match fault {
        OperateFault::Provider(ProviderFault {
            stage, cause: told, ..
        }) => {
            assert_eq!(
                (stage, told),
                (Stage::Operate, format!("agent operation: {cause}"))
            );
        }
        refused => panic!("{refused:?}"),
    }
}
