//! A run with more tasks than a page of results has. What commands write while they read its pages is
//! compared with what is written of the whole report.

use touchstone::app::App;
use touchstone::config::Config;
use touchstone_host::cli::client::embedded::Embedded;
use touchstone_host::cli::client::{Call, Client};
use touchstone_host::render::table::Style;
use touchstone_runs::render::document::written;
use touchstone_runs::render::flips::flips;
use touchstone_runs::render::junit::Junit;
use touchstone_runs::render::markdown::Markdown;
use touchstone_runs::render::sarif::Sarif;
use touchstone_runs::render::scorecard::scorecard;
use touchstone_runs::rules::eval::report::EvalReport;
use touchstone_runs::rules::eval::statistics::{Evidence, statistics};

use crate::cli::home::Home;

const TASKS: usize = 1_020;

/// An agent that answers the first argument.
const AGENT: &str = "import json, sys\n\
    for line in sys.stdin:\n    \
        question = json.loads(line)\n    \
        print(json.dumps({'id': question['id'], 'output': sys.argv[1]}), flush=True)\n";

fn home() -> Home {
    let home = Home::empty();
    let row = |n: usize| {
        let label = if n.is_multiple_of(2) { "even" } else { "odd" };
        format!("task-{n},number {n},{label}\n")
    };
    let rows: String = (0..TASKS).map(row).collect();
    std::fs::write(home.path("cases.csv"), format!("id,input,expected\n{rows}")).unwrap();
    std::fs::write(home.path("agent.py"), AGENT).unwrap();
    home
}

/// The whole reports as a server sends them.
fn reports(home: &Home, runs: [&str; 2]) -> [String; 2] {
    let config = Config {
        data: home.data(),
        ..Config::load(Some(&home.config())).unwrap()
    };
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let app = App::start(config).await.unwrap();
        let client = Client::new(Embedded::new(app.router(), &app.local_caller_key()).unwrap());
        let mut texts = Vec::new();
        for run in runs {
            let path = format!("/v1/host/touchstone/runs/{run}/report");
            let call = Call::new(axum::http::Method::GET, &path);
            texts.push(String::from_utf8(client.octets(call).await.unwrap()).unwrap());
        }
        texts.try_into().unwrap()
    })
}

#[test]
fn a_run_of_several_pages_is_written_as_a_whole_report_is() {
    let home = home();
    let eval = |label: &str, more: &[&str]| {
        let command = format!("python3 agent.py {label}");
        let arguments = [
            "--json",
            "eval",
            "--cases",
            "cases.csv",
            "--agent-command",
            &command,
        ];
        let done = home.run(&[&arguments, more].concat());
        assert_eq!(done.code, 1, "{}", done.stderr);
        home.run_of(&done.document())
    };
    let before = eval("even", &[]);
    let run = eval("odd", &["--baseline", &before]);
    let shown = home.run(&[
        "run",
        "show",
        &run,
        "--junit",
        "a.xml",
        "--markdown",
        "a.md",
        "--sarif",
        "a.sarif",
    ]);
    let as_json = home.run(&["--json", "run", "show", &run]);
    let page = home.run(&["run", "report", &run, "--html", "-"]);

    let [baseline, text] = reports(&home, [&before, &run]);
    let baseline: EvalReport = serde_json::from_str(&baseline).unwrap();
    let report: EvalReport = serde_json::from_str(&text).unwrap();
    assert_eq!(report.tasks.len(), TASKS);
    // The host wrote it in pages, too.
    assert_eq!(text, serde_json::to_string(&report).unwrap());
    assert_eq!(
        as_json.stdout,
        format!("{}\n", serde_json::to_string_pretty(&report).unwrap())
    );

    let card = scorecard(&report, Some(&baseline), Style::default());
    assert!(card.contains("  broke 510: task-0, task-2, "), "{card}");
    assert_eq!(shown.stdout, card);
    let totals = report.totals();
    let file = |name: &str| std::fs::read_to_string(home.path(name)).unwrap();
    assert_eq!(
        file("a.xml"),
        written(&mut Junit::new(&totals), &report).unwrap()
    );
    let sarif = written(&mut Sarif::new(&totals, &[], &[]), &report).unwrap();
    assert_eq!(file("a.sarif"), sarif);
    let found = statistics(&Evidence::of(&report), None, None);
    let changes = flips(&report, &baseline);
    let mut markdown = Markdown::new(&totals, &found, Some(&changes));
    assert_eq!(file("a.md"), written(&mut markdown, &report).unwrap());
    assert!(
        page.stdout.contains(">10 more are not listed."),
        "{}",
        page.stdout
    );
}
