//! Prices of models, unknown costs, and cost limits that need a price.

use std::time::Duration;

use serde_json::{Value, json};
use wiremock::matchers::method;
use wiremock::{Mock, ResponseTemplate};

use super::support::ModelServer;
use crate::cli::home::{Done, Home};

const CASES: &str =
    "id,input,expected\nrefund,I was charged twice,billing\nlogin,Error 500,technical\n";

/// A prompt and cases, and a local endpoint that always answers `billing`.
struct Desk {
    home: Home,
    server: ModelServer,
}

impl Desk {
    fn new() -> Self {
        let answer = json!({
            "choices": [{"index": 0, "finish_reason": "stop",
                         "message": {"role": "assistant", "content": "billing"}}],
            "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100},
        });
        Self::of(ResponseTemplate::new(200).set_body_json(answer))
    }

    /// With an endpoint that always answers this.
    fn of(answer: ResponseTemplate) -> Self {
        let server = ModelServer::new(Mock::given(method("POST")).respond_with(answer));
        let home = Home::empty();
        std::fs::write(home.path("prompt.md"), "Answer with a label.").unwrap();
        std::fs::write(home.path("cases.csv"), CASES).unwrap();
        Self { home, server }
    }

    /// Evaluates the prompt on the endpoint as the model `gpt-4o-mini`, which has a list price
    /// elsewhere.
    fn eval(&self, more: &[&str]) -> Done {
        let url = self.server.url();
        let command = [
            "eval",
            "--prompt",
            "prompt.md",
            "--cases",
            "cases.csv",
            "--no-cache",
        ];
        let model = ["--model-url", &url, "--model", "gpt-4o-mini"];
        self.home.run(&[&command[..], &model[..], more].concat())
    }

    fn report(&self, more: &[&str]) -> Value {
        let done = self.eval(&[&["--json"], more].concat());
        assert_eq!(done.code, 1, "{}{}", done.stdout, done.stderr);
        done.document()
    }
}

fn refusal(done: &Done) -> String {
    assert_eq!(done.code, 2, "{}{}", done.stdout, done.stderr);
    format!("{}{}", done.stdout, done.stderr)
}

#[test]
fn the_cost_of_a_local_model_is_unknown_in_every_view_and_never_0() {
    let desk = Desk::new();
    let report = desk.report(&[]);
    let summary = &report["summary"];
    assert_eq!(summary.get("totalCostUsd"), None, "{report}");
    assert!(summary["tasks"][0].get("costUsd").is_none());
    assert_eq!(report["prices"], json!({}));

    let home = &desk.home;
    let run = home.run_of(&report);
    let shown = home.run(&["run", "show", &run]).stdout;
    assert!(
        shown.contains("cost unknown (no price for gpt-4o-mini)"),
        "{shown}"
    );
    let task = home.run(&["run", "show", &run, "--task", "refund"]).stdout;
    assert!(task.contains("cost unknown"), "{task}");
    let list = home.run(&["run", "list"]).stdout;
    assert!(list.contains("unknown"), "{list}");
    let (html, markdown) = (home.path("report.html"), home.path("report.md"));
    let page = home.run(&["run", "report", &run, "--html", html.to_str().unwrap()]);
    assert_eq!(page.code, 0, "{}", page.stderr);
    let page = std::fs::read_to_string(html).unwrap();
    assert!(page.contains("unknown"), "{page}");
    desk.eval(&["--markdown", markdown.to_str().unwrap()]);
    let markdown = std::fs::read_to_string(markdown).unwrap();
    assert!(
        markdown.contains("unknown (no price for gpt-4o-mini)"),
        "{markdown}"
    );
    let compared = home.run(&["compare", &run, "latest"]).stdout;
    assert!(compared.contains("unknown"), "{compared}");
    for text in [&shown, &task, &list, &page, &markdown, &compared] {
        assert!(!text.contains("$0"), "{text}");
    }
    let events = home.run(&["run", "events", &run]).stdout;
    assert!(events.contains("provider.usage") && !events.contains("costEstimateUsd"));
}

#[test]
fn a_run_whose_calls_were_cut_off_costs_an_unknown_amount_in_every_view() {
    let desk = Desk::of(ResponseTemplate::new(200).set_delay(Duration::from_secs(30)));
    let done = desk.eval(&["--json", "--timeout", "1s"]);
    let report = done.document();
    let summary = &report["summary"];
    assert_eq!(report["tasks"][0]["reason"], "task_timeout", "{report}");
    for numbers in [summary, &summary["tasks"][0]] {
        for member in ["totalCostUsd", "costUsd", "latencyMs"] {
            assert_eq!(numbers.get(member), None, "{report}");
        }
    }
    let home = &desk.home;
    let run = home.run_of(&report);
    let html = home.path("report.html");
    home.run(&["run", "report", &run, "--html", html.to_str().unwrap()]);
    let page = std::fs::read_to_string(html).unwrap();
    let of = |command: &[&str]| home.run(command).stdout;
    let listed = of(&["--json", "run", "list"]);
    assert!(!listed.contains("totalCostUsd"), "{listed}");
    for text in [
        of(&["run", "list"]),
        of(&["run", "show", &run]),
        of(&["run", "show", &run, "--failed"]),
        page,
    ] {
        assert!(text.contains("unknown"), "{text}");
        // A transcript begins at 0 ms; a latency follows a dot, or is in a cell.
        for wrong in ["$0", "· 0 ms", ">0 ms", "· 0 tokens"] {
            assert!(!text.contains(wrong), "{wrong}: {text}");
        }
    }
}

#[test]
fn a_given_price_counts_even_if_it_is_0() {
    let desk = Desk::new();
    let report = desk.report(&["--model-price", "0.15,0.6"]);
    // 2 × (1000 × 0.15 + 100 × 0.6) / 10⁶
    assert_eq!(report["summary"]["totalCostUsd"], json!(0.00042));
    assert_eq!(report["prices"]["model"]["source"], "configured");
    let free = desk.report(&["--model-price", "0,0", "--max-cost-usd", "0"]);
    assert_eq!(free["summary"]["totalCostUsd"], json!(0.0));
}

#[test]
fn a_price_of_the_configuration_applies_to_its_host_only() {
    let desk = Desk::new();
    let entry = |host: &str| {
        format!(
            "[[prices]]\nhost = \"{host}\"\nmodel = \"gpt-4o-mini\"\ninput_usd_per_mtok = 1.0\n\
             output_usd_per_mtok = 10.0\nas_of = \"2026-11-01\"\n"
        )
    };
    std::fs::write(desk.home.config(), entry("127.0.0.1:1")).unwrap();
    assert!(desk.report(&[])["summary"].get("totalCostUsd").is_none());
    std::fs::write(desk.home.config(), entry(&desk.server.host())).unwrap();
    let report = desk.report(&[]);
    assert_eq!(report["summary"]["totalCostUsd"], json!(0.004));
    assert_eq!(report["prices"]["model"]["asOf"], "2026-11-01");
    let listed = desk.home.run(&["model", "prices", "gpt-4o-mini"]).stdout;
    let first = listed.lines().next().unwrap();
    assert!(
        first.contains(&desk.server.host()) && first.contains("2026-11-01"),
        "{listed}"
    );
    assert!(listed.contains("api.openai.com"), "{listed}");
}

#[test]
fn a_cost_limit_without_a_price_is_refused_before_any_call() {
    let desk = Desk::new();
    let said = refusal(&desk.eval(&["--max-cost-usd", "1"]));
    for part in ["--max-cost-usd", "gpt-4o-mini", "--model-price"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    std::fs::write(
        desk.home.config(),
        "[limits]\nmax_cost_usd_per_suite = 5.0\n",
    )
    .unwrap();
    let said = refusal(&desk.eval(&[]));
    assert!(said.contains("max_cost_usd_per_suite"), "{said}");
    assert_eq!(desk.server.calls(), 0);
    desk.report(&["--model-price", "0,0"]);
}

#[test]
fn a_command_has_a_price_only_if_one_is_given() {
    let desk = Desk::new();
    let answering = r#"while read -r line; do id=${line#*:}; echo "{\"id\":${id%%,*},\"output\":\"billing\",\"usage\":{\"inputTokens\":1000,\"outputTokens\":0}}"; done"#;
    let command = [
        "--json",
        "eval",
        "--cases",
        "cases.csv",
        "--agent-command",
        answering,
    ];
    let unknown = desk.home.run(&command).document();
    assert!(
        unknown["summary"].get("totalCostUsd").is_none(),
        "{unknown}"
    );
    let priced = [&command[..], &["--model-price", "2,0"]].concat();
    let priced = desk.home.run(&priced).document();
    assert_eq!(priced["summary"]["totalCostUsd"], json!(0.004), "{priced}");
}

#[test]
fn variants_of_unknown_cost_are_not_on_the_front_of_a_matrix() {
    let desk = Desk::new();
    let url = desk.server.url();
    let command = [
        "--json",
        "matrix",
        "--prompt",
        "prompt.md",
        "--cases",
        "cases.csv",
        "--no-cache",
        "--model-url",
        &url,
        "--model",
        "dear",
        "--model",
        "unpriced",
        "--model-price",
        "dear=1,1",
    ];
    let found = desk.home.run(&command).document();
    let variants = found["variants"].as_array().unwrap();
    assert_eq!(variants[0]["costUsd"], json!(0.0022), "{found}");
    assert_eq!(variants[1]["costUsd"], Value::Null);
    assert_eq!(
        (&variants[0]["onFront"], &variants[1]["onFront"]),
        (&json!(true), &json!(false))
    );
}

#[test]
fn list_prices_are_shown_with_their_dates() {
    let home = Home::empty();
    let listed = home.run(&["--json", "model", "prices"]).document();
    let prices = listed["prices"].as_array().unwrap();
    assert!(prices.len() > 50);
    for price in prices {
        assert_eq!(price["asOf"].as_str().unwrap().len(), 10, "{price}");
        assert!(
            price["source"].as_str().unwrap().starts_with("https://"),
            "{price}"
        );
    }
    let none = home.run(&["model", "prices", "no-such-model"]);
    assert_eq!((none.code, none.stdout.as_str()), (0, ""));
    assert!(none.stderr.contains("[[prices]]"), "{}", none.stderr);
}

#[test]
fn an_invalid_price_is_refused() {
    let desk = Desk::new();
    for price in ["1", "1,-1", "a,b", "1,NaN"] {
        let said = refusal(&desk.eval(&["--model-price", price]));
        assert!(said.contains("two amounts in USD"), "{said}");
    }
    std::fs::write(
        desk.home.config(),
        "[[prices]]\nhost = \"h\"\nmodel = \"m\"\ninput_usd_per_mtok = -1\noutput_usd_per_mtok = 1\n",
    )
    .unwrap();
    let said = refusal(&desk.eval(&[]));
    assert!(
        said.contains("`prices[0].input_usd_per_mtok` must be"),
        "{said}"
    );
}
