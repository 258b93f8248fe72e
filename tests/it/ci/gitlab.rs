//! The script as a job of GitLab, with an API that serves the baseline.

use serde_json::{Value, json};
use wiremock::matchers::{header, method, path, query_param};
use wiremock::{Mock, ResponseTemplate};

use super::{Keys, Pipeline, kept_baseline, wrong_answers};
use crate::cli::runs::support::ModelServer;

/// A job of a merge request into `main`.
fn merge_request(keys: &Keys, api: &ModelServer) -> Option<Pipeline> {
    let mut pipeline = Pipeline::new("a merge request of GitLab")?;
    for (name, value) in [
        ("GITLAB_CI", "true"),
        ("CI_MERGE_REQUEST_IID", "7"),
        ("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "main"),
        ("CI_PROJECT_ID", "12"),
        ("CI_JOB_NAME", "touchstone"),
        ("CI_JOB_TOKEN", "token of the job"),
        ("TOUCHSTONE_CI_BASELINE_KEY", &keys.public()),
    ] {
        pipeline.set(name, value);
    }
    pipeline.set("CI_API_V4_URL", &format!("http://{}/api/v4", api.host()));
    Some(pipeline)
}

fn api(answer: ResponseTemplate) -> ModelServer {
    let of =
        "/api/v4/projects/12/jobs/artifacts/main/raw/.touchstone-results/baseline.intoto.jsonl";
    ModelServer::new(
        Mock::given(method("GET"))
            .and(path(of))
            .and(query_param("job", "touchstone-attest"))
            .and(header("JOB-TOKEN", "token of the job"))
            .respond_with(answer),
    )
}

#[test]
fn a_merge_request_that_makes_the_agent_worse_is_stopped() {
    let keys = Keys::new();
    let Some(baseline) = kept_baseline(&keys) else {
        return;
    };
    let api = api(ResponseTemplate::new(200).set_body_bytes(baseline));
    let job = merge_request(&keys, &api).unwrap();
    job.home.model(&wrong_answers(14));
    let done = job.run();
    assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);
    assert_eq!(job.result()["regression"], "regressed");
    assert!(!done.stdout.contains("::error"), "{}", done.stdout);
    assert!(
        job.read(".touchstone-results/eval.xml")
            .contains("failures=\"14\"")
    );
    let quality = job.read(".touchstone-results/gl-code-quality-report.json");
    let quality: Value = serde_json::from_str(&quality).unwrap();
    assert_eq!(quality.as_array().unwrap().len(), 14, "{quality}");
    for member in ["description", "check_name", "fingerprint"] {
        assert!(quality[0][member].is_string(), "{member}: {quality}");
    }
    assert_eq!(quality[0]["severity"], "major");
    assert_eq!(quality[0]["location"]["lines"]["begin"], json!(1));
    let dotenv = job.read(".touchstone-results/result.env");
    assert!(dotenv.contains("TOUCHSTONE_VERDICT=fail\n"), "{dotenv}");
}

#[test]
fn the_first_merge_request_has_no_baseline() {
    let keys = Keys::new();
    let api = api(ResponseTemplate::new(404));
    let Some(job) = merge_request(&keys, &api) else {
        return;
    };
    let done = job.run();
    assert_eq!(done.code, 0, "{}{}", done.stdout, done.stderr);
    assert_eq!(job.result()["regression"], "none");
}

#[test]
fn a_baseline_that_cannot_be_fetched_is_not_taken_for_none() {
    let keys = Keys::new();
    let api = api(ResponseTemplate::new(500));
    let Some(job) = merge_request(&keys, &api) else {
        return;
    };
    let done = job.run();
    assert_eq!(done.code, 3, "{}{}", done.stdout, done.stderr);
    assert!(
        done.stderr.contains("GitLab answered 500"),
        "{}",
        done.stderr
    );
    assert_eq!(job.runs(), 0);
}
