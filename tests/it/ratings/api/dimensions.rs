//! One dimension across all agents, to show where the gaps are.

use rstest::rstest;
use serde_json::{Value, json};

use super::assessments::{assessed, work};
use super::{Engine, Site, appeals, site};

/// Two rated agents, the weaker one enrolled first, and an unrated one.
async fn furnish(site: &Site) -> [String; 3] {
    let weak = appeals::rated(site).await;
    let steady = site.enrol("steady").await;
    work(site, &steady, "good", 40, "accepted").await;
    site.host.assess();
    let order = json!({"agent_id": steady, "type": "passive_only"});
    let found = assessed(site, &order).await;
    assert_eq!(found["status"], "completed", "{found}");
    let weak = weak["agent_id"].as_str().unwrap().to_owned();
    [weak, steady, site.enrol("idle").await]
}

fn dimension<'a>(found: &'a Value, name: &str) -> &'a Value {
    let dimensions = found["dimensions"].as_array().unwrap();
    let named = dimensions.iter().find(|it| it["dimension"] == name);
    named.unwrap()
}

#[rstest]
#[tokio::test]
async fn every_dimension_is_shown_over_all_agents_weakest_first(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    site!(engine => site);
    let [weak, steady, idle] = furnish(&site).await;
    let found = site.get("dimensions").await.json();
    assert_eq!(
        (&found["agents"], &found["more"]),
        (&json!(3), &json!(false))
    );
    assert_eq!(
        found["not_rated"],
        json!([{"agent_id": idle, "name": "idle"}])
    );
    assert_eq!(found["dimensions"].as_array().unwrap().len(), 12);
    let completion = dimension(&found, "task_completion_rate");
    let [first, second] = [0_usize, 1].map(|at| &completion["agents"][at]);
    assert_eq!(
        (&first["agent_id"], &second["agent_id"]),
        (&json!(weak), &json!(steady))
    );
    let number = |value: &Value| value.as_f64().unwrap();
    assert!(number(&first["score"]) < number(&second["score"]));
    assert!(number(&first["low"]) <= number(&first["score"]));
    assert!(number(&first["score"]) <= number(&first["high"]));
    assert_eq!(second["tier"], "Elite");
    let mean = number(&first["score"]).midpoint(number(&second["score"]));
    assert!((number(&completion["mean"]) - mean).abs() < 1e-4);
    // No agent has orchestration evidence.
    let orchestration = dimension(&found, "orchestration_skills");
    assert_eq!(
        (&orchestration["assessed"], &orchestration["mean"]),
        (&json!(0), &Value::Null)
    );
    let means = found["dimensions"].as_array().unwrap().iter();
    let means: Vec<f64> = means.filter_map(|it| it["mean"].as_f64()).collect();
    assert!(means.is_sorted(), "{means:?}");
    // An archived agent is not shown.
    let path = format!("agents/{weak}");
    let archived = site.send(axum::http::Method::DELETE, &path, None).await;
    assert_eq!(archived.status, 204, "{archived:?}");
    let found = site.get("dimensions").await.json();
    let completion = dimension(&found, "task_completion_rate");
    assert_eq!(completion["agents"].as_array().unwrap().len(), 1);
}
