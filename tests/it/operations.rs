//! Metrics, alerts and dashboards for the operator of a host (`deploy`, `docs/operations.md`): what
//! they use is exported by a real host, and Prometheus' own tool accepts it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use regex::Regex;
use reqwest::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};

use crate::client::program;
use crate::process::api::Api;
use crate::process::endpoint::{Endpoint, question, saying};
use crate::process::{AGENT, Site, TOO_LONG};

const ALERTS: &str = "deploy/prometheus/alerts.yaml";
const ALERT_TESTS: &str = "deploy/prometheus/alerts.test.yaml";
const DASHBOARDS: [&str; 3] = ["overview", "evaluation-runs", "operations"];
const SUITE: &str = "private.touchstone.evals.measured@1.0.0";
const TENANT: &str = "acme";

fn text_of(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn dashboard(name: &str) -> Value {
    serde_json::from_str(&text_of(&format!("deploy/grafana/{name}.json"))).unwrap()
}

/// The result of `promtool`, with standard input; `None`, with a printed note, without the tool.
fn promtool(arguments: &[&str], input: &str) -> Option<(bool, String)> {
    let in_path = std::env::var_os("PATH").and_then(|path| {
        let found = std::env::split_paths(&path).map(|folder| folder.join("promtool"));
        found.into_iter().find(|it| it.is_file())
    });
    let usual = in_path.unwrap_or_else(|| PathBuf::from("/usr/bin/promtool"));
    let tool = program(
        "promtool",
        "TOUCHSTONE_TEST_PROMTOOL",
        usual.to_str().unwrap(),
    )?;
    let mut child = Command::new(tool)
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writing = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    // A tool that refuses its arguments does not read its input.
    let _ = writing.join().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    Some((output.status.success(), said))
}

fn assert_accepted(arguments: &[&str], input: &str) {
    if let Some((accepted, said)) = promtool(arguments, input) {
        assert!(accepted, "promtool {arguments:?}: {said}");
    }
}

/// An exported metric: its type, the names of its labels, and its series as exported.
#[derive(Default)]
pub struct Metric {
    kind: String,
    labels: BTreeSet<String>,
    pub series: BTreeMap<String, f64>,
}

/// The metrics of a scrape, by name.
pub fn metrics_of(scrape: &str) -> BTreeMap<String, Metric> {
    let mut metrics: BTreeMap<String, Metric> = BTreeMap::new();
    for line in scrape.lines() {
        if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, kind) = typed.split_once(' ').unwrap();
            metrics.entry(name.to_owned()).or_default().kind = kind.to_owned();
        }
    }
    let label = Regex::new(r#"(\w+)="(?:[^"\\]|\\.)*""#).unwrap();
    for line in scrape.lines() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let metric = metrics.get_mut(family(name, &metrics)).unwrap();
        let names = label.captures_iter(labels).map(|it| it[1].to_owned());
        metric.labels.extend(names.filter(|name| name != "le"));
        metric
            .series
            .insert(series.to_owned(), value.parse().unwrap());
    }
    metrics
}

/// The metric of a series: histograms have suffixes.
fn family<'n, M>(series: &'n str, metrics: &BTreeMap<String, M>) -> &'n str {
    ["_bucket", "_sum", "_count"]
        .iter()
        .filter_map(|suffix| series.strip_suffix(suffix))
        .find(|base| metrics.contains_key(*base))
        .unwrap_or(series)
}

/// The answer of the agent's endpoint: right, wrong or an outage, as the task says.
async fn endpoint() -> Endpoint {
    Endpoint::start(0..1, |body| match question(body) {
        asked if asked.contains("right") => saying("\"yes\""),
        asked if asked.contains("wrong") => saying("\"no\""),
        _ => (
            503,
            json!({"error": {"message": "secret-detail-of-the-endpoint"}}),
        ),
    })
    .await
}

fn suite() -> Value {
    let tasks: Vec<Value> = ["right", "wrong", "down"]
        .iter()
        .map(|word| {
            json!({
                "taskId": format!("task-{word}"), "input": {"item": word},
                "expected": {"kind": "golden", "match": {"strategy": "contains", "value": "yes"}}
            })
        })
        .collect();
    let (suite, version) = SUITE.split_once('@').unwrap();
    json!({
        "suiteId": suite, "version": version, "modes": ["golden"],
        "thresholds": {"passScore": 0.5}, "tasks": tasks
    })
}

async fn scrape(api: &Api) -> String {
    let (status, text) = api.text(Method::GET, "/metrics", None).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    text
}

/// Scrapes until the gauges of the database include what `expected` says.
async fn scrape_until(api: &Api, expected: &str) -> String {
    let began = Instant::now();
    loop {
        let text = scrape(api).await;
        if text.contains(expected) {
            return text;
        }
        assert!(began.elapsed() < TOO_LONG, "no {expected} in {text}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A scrape of a host that has executed an eval run with one task of each outcome.
async fn measured(site: &Site) -> String {
    let endpoint = endpoint().await;
    let config = format!(
        "[[models]]\nclass = \"*\"\nprovider = \"openai\"\nbase_url = \"{}\"\nmodel = \"probe\"\nmax_attempts = 1\n\
         input_usd_per_mtok = 10.0\noutput_usd_per_mtok = 100.0\n",
        endpoint.url()
    );
    site.configure("touchstone.toml", &config);
    let (key, operator) = (site.key(TENANT), site.key_of("ops", &["metrics:read"]));
    let host = site.serve("touchstone.toml");
    let api = host.api(&key);
    site.install_agent(&api, "Answer.", &json!({}));
    site.import_suite(&api, &suite());
    let run = api
        .start(SUITE, AGENT, json!({"evalModes": ["golden"]}))
        .await;
    api.log(&run).await;
    let (status, _) = api
        .with_key("hk_unknown.unknown")
        .text(Method::GET, &format!("/v1/runs/{run}"), None)
        .await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    let operator = host.api(&operator);
    scrape_until(
        &operator,
        "touchstone_runs_ended_total{kind=\"eval\",status=\"completed\"} 1",
    )
    .await;
    scrape_until(&operator, "touchstone_database_writable 1").await;
    scrape_until(&operator, "touchstone_worker_runs 0").await
}

/// The start of the names that only hosts and workers of a cluster export (`cluster/measured.rs`).
pub const OF_CLUSTERS: &str = "touchstone_cluster_";

/// Names in documents that only a host with an export over OTLP has.
const OF_EXPORTS: [&str; 2] = [
    "touchstone_telemetry_dropped_total",
    "touchstone_telemetry_export_failures_total",
];

#[rstest]
#[case::sqlite(false)]
#[case::postgres(true)]
#[tokio::test(flavor = "multi_thread")]
async fn a_host_measures_its_work_without_content(#[case] on_postgres: bool) {
    let site = match on_postgres {
        false => Site::embedded(),
        true => match Site::on_postgres().await {
            Some(site) => site,
            None => return,
        },
    };
    let scrape = measured(&site).await;
    assert_accepted(&["check", "metrics"], &scrape);
    let metrics = metrics_of(&scrape);
    let value = |series: &str| {
        let name = series.split('{').next().unwrap();
        metrics[family(name, &metrics)].series[series]
    };
    for (series, expected) in [
        ("touchstone_tasks_total{outcome=\"passed\"}", 1.0),
        ("touchstone_tasks_total{outcome=\"failed\"}", 1.0),
        ("touchstone_tasks_total{outcome=\"unjudged\"}", 1.0),
        ("touchstone_tasks_unjudged_total{cause=\"agent\"}", 1.0),
        ("touchstone_tasks_unjudged_total{cause=\"judge\"}", 0.0),
        ("touchstone_task_duration_seconds_count", 2.0),
        ("touchstone_run_queue_wait_seconds_count", 1.0),
        ("touchstone_run_leases_lost_total", 0.0),
        // Exported before the first refusal, which `rate()` would miss otherwise.
        ("touchstone_rate_limited_total{scope=\"key\"}", 0.0),
        ("touchstone_auth_refusals_total{code=\"key_expired\"}", 0.0),
        ("touchstone_event_append_errors_total", 0.0),
        (
            "touchstone_model_calls_total{provider=\"openai\",role=\"agent\",outcome=\"answered\"}",
            2.0,
        ),
        (
            "touchstone_model_calls_total{provider=\"openai\",role=\"agent\",outcome=\"server_error\"}",
            1.0,
        ),
        (
            "touchstone_model_call_duration_seconds_count{provider=\"openai\",role=\"agent\"}",
            3.0,
        ),
        (
            "touchstone_model_tokens_total{provider=\"openai\",role=\"agent\",type=\"input\"}",
            200.0,
        ),
        (
            "touchstone_model_tokens_total{provider=\"openai\",role=\"agent\",type=\"output\"}",
            20.0,
        ),
        ("touchstone_webhook_lag_seconds{events=\"runs\"}", 0.0),
        ("touchstone_webhook_lag_seconds{events=\"ratings\"}", 0.0),
        ("touchstone_worker_runs", 0.0),
        ("touchstone_worker_runs_limit", 64.0),
    ] {
        assert_eq!(value(series), expected, "{series}");
    }
    // 200 input tokens at 10 USD and 20 output tokens at 100 USD per million.
    let cost = value("touchstone_model_call_cost_usd_sum{provider=\"openai\",role=\"agent\"}");
    assert!((cost - 0.004).abs() < 1e-9, "{cost}");
    assert!(value("touchstone_database_size_bytes") > 0.0);
    assert!(value("touchstone_events_appended_total") > 10.0);
    for status in ["executing", "queued", "waiting", "paused"] {
        assert!(value(&format!("touchstone_runs{{status=\"{status}\"}}")) >= 0.0);
    }
    assert!(value("touchstone_run_queue_age_seconds") >= 0.0);
    if cfg!(target_os = "linux") {
        assert!(value("process_resident_memory_bytes") > 0.0);
        let (open, most) = (value("process_open_fds"), value("process_max_fds"));
        assert!(0.0 < open && open < most, "{open} of {most}");
        assert!(value("process_start_time_seconds") > 0.0);
    }
    let disk = metrics.contains_key("touchstone_disk_free_bytes");
    assert_eq!(disk, !on_postgres, "the disk of a server is elsewhere");
    for secret in [
        TENANT,
        AGENT,
        "measured",
        "task-",
        "probe",
        "secret-detail",
        "127.0.0.1",
    ] {
        assert!(!scrape.contains(secret), "the metrics contain {secret}");
    }
    if !on_postgres {
        assert_documents_agree(&metrics);
    }
}

/// Alerts, dashboards and the table of the documentation name only what a host exports, and the
/// table names all of it.
fn assert_documents_agree(metrics: &BTreeMap<String, Metric>) {
    for (path, name) in named_in_documents(metrics) {
        let is_elsewhere = !cfg!(target_os = "linux") && name.starts_with("process_");
        let is_elsewhere = is_elsewhere || name.starts_with(OF_CLUSTERS);
        let known =
            metrics.contains_key(&name) || OF_EXPORTS.contains(&name.as_str()) || is_elsewhere;
        assert!(known, "{path} names {name}, which a host does not export");
    }
    assert_listed(metrics);
}

/// The metrics that alerts, dashboards and the documentation name, each with its document.
pub fn named_in_documents(metrics: &BTreeMap<String, Metric>) -> Vec<(String, String)> {
    let named = Regex::new(r"\b(touchstone|process)_[a-z_]+[a-z]").unwrap();
    let mut texts = vec![ALERTS.to_owned(), ALERT_TESTS.to_owned()];
    texts.extend(DASHBOARDS.map(|name| format!("deploy/grafana/{name}.json")));
    texts.push("docs/operations.md".to_owned());
    let mut found = Vec::new();
    for path in texts {
        let text = text_of(&path);
        let names = named
            .find_iter(&text)
            .map(|it| family(it.as_str(), metrics));
        found.extend(names.map(|name| (path.clone(), name.to_owned())));
    }
    found
}

/// The table of the documentation has all of these metrics.
pub fn assert_listed(metrics: &BTreeMap<String, Metric>) {
    let table = table();
    for (name, metric) in metrics {
        let Some((kind, labels)) = table.get(name) else {
            panic!("docs/operations.md does not list {name}");
        };
        assert_eq!(kind, &metric.kind, "{name}");
        assert_eq!(labels, &metric.labels, "{name}");
    }
}

/// Type and labels of each metric in the table of the documentation.
fn table() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let text = text_of("docs/operations.md");
    let is_metric = |name: &str| name.starts_with("touchstone_") || name.starts_with("process_");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows = rows.filter(|row| is_metric(row));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let name = cells[0].trim_end_matches('`').to_owned();
        let labels = cells[3].split(", ").filter(|it| *it != "–");
        let labels = labels.map(|it| it.trim_matches('`').to_owned());
        (name, (cells[1].to_owned(), labels.collect()))
    })
    .collect()
}

#[test]
fn alerts_are_valid_and_fire_as_their_tests_say() {
    assert_accepted(&["check", "rules", ALERTS], "");
    assert_accepted(&["test", "rules", ALERT_TESTS], "");
}

#[test]
fn every_alert_is_tested_and_says_what_to_do() {
    let (alerts, tests) = (text_of(ALERTS), text_of(ALERT_TESTS));
    let guide = text_of("docs/operations.md");
    let rules: Vec<&str> = alerts.split("- alert: ").skip(1).collect();
    assert!(rules.len() > 15, "{}", rules.len());
    for rule in rules {
        let name = rule.lines().next().unwrap();
        for field in ["summary: ", "description: ", "severity: "] {
            assert_eq!(rule.matches(field).count(), 1, "{name}: {field}");
        }
        let link = format!("runbook_url: docs/operations.md#{}\n", name.to_lowercase());
        assert!(rule.contains(&link), "{name} has another runbook");
        assert!(guide.contains(&format!("\n### {name}\n")), "{name}");
        let fires = format!("alertname: {name}\n        exp_alerts:\n          - ");
        assert!(tests.contains(&fires), "no test lets {name} fire");
        let quiet = format!("alertname: {name}}}\n");
        assert!(tests.contains(&quiet), "no test keeps {name} quiet");
    }
}

/// Every expression of the panels, with the variables replaced.
fn expressions(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    targets
        .map(|target| {
            let expression = target["expr"].as_str().unwrap();
            let expression = expression.replace("$__rate_interval", "5m");
            ["$job", "$instance", "$provider"]
                .iter()
                .fold(expression, |text, name| text.replace(name, ".*"))
        })
        .collect()
}

#[rstest]
#[case("overview")]
#[case("evaluation-runs")]
#[case("operations")]
fn dashboards_have_valid_queries_and_a_chosen_data_source(#[case] name: &str) {
    let dashboard = dashboard(name);
    assert_eq!(dashboard["uid"], format!("touchstone-{name}"));
    // Grafana 10 writes version 38 and newer ones read it.
    assert_eq!(dashboard["schemaVersion"], 38);
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    assert_eq!(variables[0]["name"], "datasource");
    assert_eq!(variables[0]["type"], "datasource");
    let chosen = json!({"type": "prometheus", "uid": "${datasource}"});
    let (mut ids, mut places) = (BTreeSet::new(), BTreeSet::new());
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}");
        let grid = &panel["gridPos"];
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|it| grid[it].as_u64().unwrap());
        assert!(x + w <= 24, "{title}");
        for place in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(places.insert(place), "{title} overlaps another panel");
        }
        if panel["type"] == "row" {
            continue;
        }
        assert!(
            !panel["description"].as_str().unwrap().is_empty(),
            "{title}"
        );
        assert_eq!(panel["datasource"], chosen, "{title}");
        let targets = panel["targets"].as_array().unwrap();
        assert!(
            targets.iter().all(|it| it["datasource"] == chosen),
            "{title}"
        );
    }
    let rules: Vec<Value> = expressions(&dashboard)
        .into_iter()
        .enumerate()
        .map(|(n, expression)| json!({"record": format!("panel:{n}"), "expr": expression}))
        .collect();
    assert!(rules.len() > 10);
    assert!(
        rules
            .iter()
            .all(|it| !it["expr"].as_str().unwrap().contains('$')),
        "{rules:?}"
    );
    // JSON is YAML.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("panels.yaml");
    let group = json!({"groups": [{"name": name, "rules": rules}]});
    std::fs::write(&file, group.to_string()).unwrap();
    assert_accepted(&["check", "rules", file.to_str().unwrap()], "");
}

/// The selectors of an expression: name, labels, and whether it is a range.
fn selectors(expression: &str) -> Vec<(String, String, bool)> {
    let selector = Regex::new(r"\b([a-z_]+)\{([^}]*)\}(\[)?").unwrap();
    let all = selector.captures_iter(expression);
    all.map(|it| (it[1].to_owned(), it[2].to_owned(), it.get(3).is_some()))
        .collect()
}

/// A panel shows what the variables select, a rate only of what increases, and a name for each
/// series.
#[rstest]
#[case("overview")]
#[case("evaluation-runs")]
#[case("operations")]
fn panels_follow_the_variables_and_the_types_of_metrics(#[case] name: &str) {
    let dashboard = dashboard(name);
    let mut table = table();
    table.insert("up".to_owned(), ("gauge".to_owned(), BTreeSet::new()));
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let has_provider = variables.iter().any(|it| it["name"] == "provider");
    for variable in variables {
        // `.*` would select the targets of other programs, which `up` and `process_…` have too.
        let is_place = variable["name"] == "job" || variable["name"] == "instance";
        assert!(
            !is_place || variable.get("allValue").is_none(),
            "{variable}"
        );
    }
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().unwrap();
            let selectors = selectors(expression);
            assert!(!selectors.is_empty(), "{title}: {expression}");
            for (metric, labels, is_range) in selectors {
                let (kind, known) = &table[family(&metric, &table)];
                let mut wanted = vec![r#"job=~"$job""#, r#"instance=~"$instance""#];
                if has_provider && known.contains("provider") {
                    wanted.push(r#"provider=~"$provider""#);
                }
                for part in wanted {
                    assert!(labels.contains(part), "{title}: {metric} without {part}");
                }
                assert_eq!(is_range, kind != "gauge", "{title}: a rate of {metric}");
            }
            let legend = target["legendFormat"].as_str().unwrap();
            let is_one = panel["type"] == "stat" && !expression.contains(" by (");
            assert_ne!(
                legend.is_empty(),
                !is_one,
                "{title}: the legend is `{legend}`"
            );
        }
    }
}
