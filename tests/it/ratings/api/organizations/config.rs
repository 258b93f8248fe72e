//! Assessment settings of an organization.

use axum::http::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};

use crate::ratings::api::{Engine, refusal, site};

fn performance(speed: f64) -> Value {
    json!({"task_completion_rate": 0.25, "accuracy": 0.25, "speed": speed, "consistency": 0.2, "review_compliance": 0.15})
}

#[rstest]
#[case(performance(0.15), 200, "")]
#[case(performance(0.16), 422, "WEIGHT_SUM_INVALID")]
#[case(performance(0.149), 422, "WEIGHT_SUM_INVALID")]
#[case(performance(0.1505), 400, "INVALID_REQUEST")]
#[case(performance(-0.15), 400, "INVALID_REQUEST")]
#[case(json!({"accuracy": 1}), 400, "INVALID_REQUEST")]
#[tokio::test]
async fn weights_are_stored_only_if_valid_and_summing_to_one(
    #[case] weights: Value,
    #[case] status: u16,
    #[case] code: &str,
) {
    site!(Engine::Sqlite => site);
    let standard = site.get("config/weights").await.json();
    let body = json!({"performance_weights": weights});
    let set = site.send(Method::PUT, "config/weights", Some(&body)).await;
    assert_eq!(set.status.as_u16(), status, "{set:?}");
    if status == 200 {
        assert_eq!(set.json()["performance_weights"], weights);
        assert_eq!(site.get("config/weights").await.json(), set.json());
    } else {
        assert_eq!(refusal(&set).1, code);
        assert_eq!(
            site.get("config/weights").await.json(),
            standard,
            "nothing has changed"
        );
    }
}

#[rstest]
#[tokio::test]
async fn changed_settings_are_stored_and_can_be_reset(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let path = format!("organizations/{}/config", site.ours.id);
    let before = site.get(&path).await.json();
    assert_eq!(before["assessment_window_days"], 30);
    let change = async |body: Value| site.send(Method::PATCH, &path, Some(&body)).await;
    let changed = change(json!({"assessment_window_days": 14, "domain_taxonomy": ["code"]})).await;
    assert_eq!(changed.json()["assessment_window_days"], 14);
    assert_eq!(
        site.get("config/taxonomy").await.json(),
        json!({"domain_taxonomy": ["code"]})
    );
    let theirs = format!("organizations/{}/config", site.theirs.id);
    let theirs = site.send_as(&site.theirs, Method::GET, &theirs, None).await;
    assert_eq!(
        theirs.json(),
        before,
        "the other organization's is unchanged"
    );
    for (body, field) in [
        (
            json!({"assessment_window_day": 14}),
            "assessment_window_day",
        ),
        (
            json!({"assessment_window_days": 0}),
            "assessment_window_days",
        ),
        (json!({"domain_taxonomy": []}), "domain_taxonomy"),
    ] {
        let refused = change(body).await;
        assert_eq!(
            refusal(&refused),
            (StatusCode::BAD_REQUEST, "INVALID_REQUEST".to_owned())
        );
        assert!(refused.text().contains(field), "{}", refused.text());
    }
    let back = change(json!({"assessment_window_days": null, "domain_taxonomy": null})).await;
    assert_eq!(back.json(), before);
    let set = json!({"domain_taxonomy": ["legal", "code"]});
    let set = site.send(Method::PUT, "config/taxonomy", Some(&set)).await;
    assert_eq!(set.json(), json!({"domain_taxonomy": ["legal", "code"]}));
    let standards = site.get("standards").await.json();
    assert_eq!(standards["dimensions"].as_array().unwrap().len(), 12);
}
