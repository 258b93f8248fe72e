//! `touchstone demo`: the real code path, from key creation to promotion decision, in a few
//! seconds.
//!
//! A team wants to move its support-triage agent to a cheaper model class. The demo builds and
//! signs both versions of its pack, installs them with verification, evaluates them over HTTP and
//! asks the gate which one may be promoted. Only the model is simulated, unless a real endpoint is
//! given.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::cli::embedded::start;
use crate::config::Config;
use crate::demo::pack::{ADVERSARIAL, AGENT, NAMESPACE, Release, SUITE};
use crate::demo::standin;
use touchstone_agents::cli::endpoint;
use touchstone_agents::model::config::{ClassSelector, ModelConfig, Provider};
use touchstone_deployments::promotion::Requirement;
use touchstone_host::access::Scope;
use touchstone_host::background::{Spawned, spawn};
use touchstone_host::cli::client::Client;
use touchstone_host::cli::client::remote::Remote;
use touchstone_host::cli::context::{Context, program};
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::options::address;
use touchstone_host::cli::shell::quoted;
use touchstone_host::http;
use touchstone_host::ports::ids::Ids;
use touchstone_host::render::table::Style;
use touchstone_host::service::keys::LOCAL_TENANT;
use touchstone_host::system::SystemIds;
use touchstone_kit::ids::TenantId;
use touchstone_kit::keys::SecretKey;
use touchstone_openwop::suite::{EvalMode, ModelClass};
use touchstone_packs::config::TrustedKey;
use touchstone_packs::rules::build::{SignedPack, sign};
use touchstone_packs::rules::verify::SigningMethod;
use touchstone_runs::cli::watch::{Interrupts, Started, follow};
use touchstone_runs::render::scorecard::scorecard;
use touchstone_runs::rules::eval::report::{EvalReport, Verdict};

const EXAMPLES: &str = "\
Exit codes: 0 the expected result, 3 the demo could not be completed as expected, 4 a real
endpoint failed in some tasks.

Examples:
  touchstone demo
  touchstone demo --keep
  touchstone demo --model-url http://127.0.0.1:11434/v1 --model llama3.2
  touchstone demo --model-url https://api.openai.com/v1 --model gpt-4o \\
    --candidate-model gpt-4o-mini";

const KEY_ID: &str = "touchstone-demo-1";
/// Maximum number of tasks in flight, low enough to see the progress.
const CONCURRENCY: u32 = 4;

/// Run a complete evaluation in seconds: sign, install, evaluate two versions, decide
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// OpenAI-compatible endpoint to use instead of the simulated model; its API key comes from
    /// TOUCHSTONE_MODEL_API_KEY or OPENAI_API_KEY
    #[arg(long, value_name = "URL", requires = "model", value_parser = address)]
    model_url: Option<Url>,

    /// Model name at --model-url
    #[arg(long, value_name = "NAME", requires = "model_url")]
    model: Option<String>,

    /// Model of the second version [default: that of --model]
    #[arg(long, value_name = "NAME", requires = "model_url")]
    candidate_model: Option<String>,

    /// Keep the database, to inspect the runs afterwards
    #[arg(long)]
    keep: bool,
}

pub async fn run(context: &Context<'_>, arguments: Arguments) -> Result<Exit, Failure> {
    let folder = tempfile::Builder::new()
        .prefix("touchstone-demo-")
        .tempdir()
        .map_err(|cause| failed("no_folder", &cause))?;
    let shutdown = CancellationToken::new();
    let told = tell(context, &arguments, folder.path(), &shutdown).await;
    shutdown.cancel();
    let (story, host) = told?;
    // Close the store before removing its folder.
    let _ = host.await;
    let kept = arguments.keep.then(|| folder.keep());
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&story.document(kept.as_deref()));
    } else {
        terminal.print(&next_steps(context, &story, kept.as_deref(), &arguments));
    }
    story.exit(arguments.model_url.is_some())
}

struct Story {
    present: EvalReport,
    candidate: EvalReport,
    present_unmet: Vec<Requirement>,
    candidate_unmet: Vec<Requirement>,
}

impl Story {
    fn document(&self, kept: Option<&Path>) -> Value {
        json!({
            "ok": true,
            "evals": [self.present, self.candidate],
            "gate": [
                {"version": self.present.agent.version, "unmet": self.present_unmet},
                {"version": self.candidate.agent.version, "unmet": self.candidate_unmet},
            ],
            "data": kept,
        })
    }

    /// The simulated model must give the expected result; a real model may give any.
    fn exit(&self, real: bool) -> Result<Exit, Failure> {
        let verdicts = (
            self.present.lenient_verdict(),
            self.candidate.lenient_verdict(),
        );
        if real {
            let conclusive = |verdict| matches!(verdict, Verdict::Pass | Verdict::Fail);
            return Ok(if conclusive(verdicts.0) && conclusive(verdicts.1) {
                Exit::Good
            } else {
                Exit::Inconclusive
            });
        }
        let as_told = verdicts == (Verdict::Pass, Verdict::Fail)
            && self.present_unmet.is_empty()
            && !self.candidate_unmet.is_empty();
        if as_told {
            Ok(Exit::Good)
        } else {
            Err(Failure::not_done(
                "demo_went_otherwise",
                "the demo did not give the expected result",
            )
            .or_try("run it again on an idle machine; if it fails again, report what it printed"))
        }
    }
}

async fn tell(
    context: &Context<'_>,
    arguments: &Arguments,
    folder: &Path,
    shutdown: &CancellationToken,
) -> Result<(Story, Spawned<()>), Failure> {
    let say = Narrator(context);
    say.title(
        "Is this agent good enough to deploy?  A support-triage agent moves to a cheaper model.",
    );

    say.step("1  Sign");
    let key = SecretKey::from_random(SystemIds.secret());
    let packs = [Release::Present, Release::Candidate]
        .map(|release| sign(&release.files(), SigningMethod::Ed25519, &key, KEY_ID));
    let [present, candidate] = packs;
    let (present, candidate) = (present.map_err(refused)?, candidate.map_err(refused)?);
    say.line(&format!(
        "created an Ed25519 key; signed {} and @{}",
        present.id, candidate.id.version
    ));
    say.line("1.1.0 differs in one word: its modelClass is `classification` instead of `general`");

    say.step("2  Serve");
    let models = models(arguments, shutdown).await?;
    let (client, url, host) = serve(folder, &key, models.configs, shutdown).await?;
    say.line(&format!(
        "host on {}, SQLite in {}",
        url.as_str().trim_end_matches('/'),
        folder.display()
    ));
    for line in &models.said {
        say.line(line);
    }

    say.step("3  Install");
    install(&client, &say, [&present, &candidate]).await?;
    tamper(&client, &say, &present).await?;

    say.step("4  Evaluate 1.0.0");
    let before = evaluate(context, &client, Release::Present, None).await?;
    say.summary(&before, None);

    // An inconclusive run is not a usable baseline: its unjudged tasks would hide a regression.
    let baseline = before.is_judged().then_some(&before);
    say.step(match baseline {
        Some(_) => "5  Evaluate 1.1.0 against it",
        None => "5  Evaluate 1.1.0 (with nothing to compare it with)",
    });
    let after = evaluate(context, &client, Release::Candidate, baseline).await?;
    say.summary(&after, baseline);

    say.step("6  Promote?");
    let story = Story {
        present_unmet: gate(&client, Release::Present, &before).await?,
        candidate_unmet: gate(&client, Release::Candidate, &after).await?,
        present: before,
        candidate: after,
    };
    say.decision("1.1.0 on its own run", &story.candidate_unmet);
    let borrowed = gate(&client, Release::Candidate, &story.present).await?;
    say.decision("1.1.0 on the run of 1.0.0", &borrowed);
    say.decision("1.0.0 on its own run", &story.present_unmet);
    Ok((story, host))
}

struct DemoModels {
    configs: Vec<ModelConfig>,
    said: Vec<String>,
}

/// The models of the two classes, and how to describe them.
async fn models(
    arguments: &Arguments,
    shutdown: &CancellationToken,
) -> Result<DemoModels, Failure> {
    let of_class = |class, config| ModelConfig {
        class: ClassSelector::Class(class),
        ..config
    };
    if let (Some(url), Some(model)) = (&arguments.model_url, &arguments.model) {
        let candidate = arguments.candidate_model.as_ref().unwrap_or(model);
        return Ok(DemoModels {
            configs: vec![
                of_class(ModelClass::General, endpoint(Provider::Openai, url, model)),
                of_class(
                    ModelClass::Classification,
                    endpoint(Provider::Openai, url, candidate),
                ),
            ],
            said: vec![format!(
                "models at {url}: general → {model}, classification → {candidate}"
            )],
        });
    }
    let url = standin::serve(shutdown.clone())
        .await
        .map_err(|cause| failed("no_standin", &cause))?;
    let priced =
        |model: &str, input, output| ModelConfig::openai(url.clone(), model).priced(input, output);
    Ok(DemoModels {
        configs: vec![
            of_class(ModelClass::General, priced(standin::LARGE, 2.5, 10.0)),
            of_class(
                ModelClass::Classification,
                priced(standin::SMALL, 0.15, 0.6),
            ),
        ],
        said: vec![
            format!(
                "models at {url}: general → {}, classification → {}",
                standin::LARGE,
                standin::SMALL
            ),
            "(a simulated model with the OpenAI protocol: keyword rules, no LLM)".to_owned(),
        ],
    })
}

/// Starts the host as `touchstone serve` does, and a client that calls it over HTTP.
async fn serve(
    folder: &Path,
    key: &SecretKey,
    models: Vec<ModelConfig>,
    shutdown: &CancellationToken,
) -> Result<(Client, Url, Spawned<()>), Failure> {
    let mut config = Config {
        data: folder.to_path_buf(),
        models,
        ..Config::default()
    };
    config.packs.keys.push(TrustedKey {
        key_id: KEY_ID.to_owned(),
        public_key: key.public().to_pem(),
        namespaces: vec![NAMESPACE.to_owned()],
    });
    let app = start(config).await?;
    let api_key = app
        .keys()
        .create(
            &TenantId::from(LOCAL_TENANT),
            &Scope::within_tenant().collect::<Vec<_>>(),
            None,
        )
        .await
        .map_err(|cause| failed("no_key", &cause))?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .map_err(|cause| failed("cannot_listen", &cause))?;
    let address = listener
        .local_addr()
        .map_err(|cause| failed("cannot_listen", &cause))?;
    let url = Url::parse(&format!("http://{address}"))
        .map_err(|cause| failed("cannot_listen", &cause))?;
    let until = shutdown.clone();
    let host = spawn("host", async move {
        let served = http::serve(listener, app.router(), until.clone());
        let (_, ()) = tokio::join!(served, app.run_until(until));
    });
    let client = Client::new(Remote::new(&url, Some(&api_key.text))?);
    Ok((client, url, host))
}

async fn install(
    client: &Client,
    say: &Narrator<'_, '_>,
    packs: [&SignedPack; 2],
) -> Result<(), Failure> {
    for pack in packs {
        let _: Value = client
            .post("/v1/host/touchstone/packs", &upload(pack, &pack.tgz))
            .await?;
    }
    let suites: Suites = client.get("/v1/host/touchstone/suites").await?;
    let colors = say.0.terminal().colors();
    for suite in suites
        .suites
        .iter()
        .filter(|suite| suite.reference() == SUITE)
    {
        let signed = if suite.signed { "signed" } else { "UNSIGNED" };
        let versions = packs.map(|pack| pack.id.version.to_string()).join(" and ");
        say.line(&format!(
            "{} {versions} verified, the signatures cover the whole archives; suite of {} tasks, {signed}",
            colors.good("✓"),
            suite.task_count
        ));
    }
    Ok(())
}

/// Changes one bit of the archive: the host must refuse it.
async fn tamper(client: &Client, say: &Narrator<'_, '_>, pack: &SignedPack) -> Result<(), Failure> {
    let mut bytes = pack.tgz.clone();
    if let Some(last) = bytes.last_mut() {
        *last ^= 1;
    }
    let answer: Result<Value, Failure> = client
        .post("/v1/host/touchstone/packs", &upload(pack, &bytes))
        .await;
    match answer {
        Err(refusal) if refusal.exit == Exit::BadInput => {
            let colors = say.0.terminal().colors();
            say.line(&format!(
                "{} 1.0.0 with one bit flipped  refused: {}",
                colors.bad("✗"),
                refusal.code
            ));
            Ok(())
        }
        Err(failure) => Err(failure),
        Ok(_) => Err(Failure::not_done(
            "demo_went_otherwise",
            "the host accepted a modified pack",
        )),
    }
}

fn upload(pack: &SignedPack, tgz: &[u8]) -> Value {
    json!({
        "tarball": STANDARD.encode(tgz),
        "served": STANDARD.encode(&pack.served),
        "signature": STANDARD.encode(pack.signature),
    })
}

#[derive(Deserialize)]
struct Suites {
    suites: Vec<Suite>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Suite {
    suite_id: String,
    version: String,
    task_count: u32,
    signed: bool,
}

impl Suite {
    fn reference(&self) -> String {
        format!("{}@{}", self.suite_id, self.version)
    }
}

#[derive(Deserialize)]
struct Checked {
    unmet: Vec<Requirement>,
}

/// Asks the host's gate whether a version may be promoted with a run as evidence.
async fn gate(
    client: &Client,
    release: Release,
    evidence: &EvalReport,
) -> Result<Vec<Requirement>, Failure> {
    let ask = json!({
        "agentId": AGENT,
        "version": release.version(),
        "channel": "stable",
        "evalRunId": evidence.run_id,
    });
    let checked: Checked = client.post("/v1/host/touchstone/gates/check", &ask).await?;
    Ok(checked.unmet)
}

async fn evaluate(
    context: &Context<'_>,
    client: &Client,
    release: Release,
    baseline: Option<&EvalReport>,
) -> Result<EvalReport, Failure> {
    let modes: &[EvalMode] = match baseline {
        Some(_) => &[EvalMode::Golden, EvalMode::Regression],
        None => &[EvalMode::Golden],
    };
    let configurable = json!({
        "agentVersion": release.version(),
        "evalModes": modes,
        // `null` counts as absent.
        "baselineRunId": baseline.map(|baseline| &baseline.run_id),
        "evalConcurrency": CONCURRENCY,
    });
    let body = json!({
        "mode": "eval",
        "evalSuiteRef": SUITE,
        "agentId": AGENT,
        "configurable": configurable,
    });
    let started: Started = client.post("/v1/runs", &body).await?;
    follow(
        context,
        client,
        &started.run_id,
        "",
        &mut Interrupts::listen()?,
    )
    .await
}

/// Prints the steps, unless JSON output is requested.
struct Narrator<'c, 't>(&'c Context<'t>);

impl Narrator<'_, '_> {
    fn title(&self, text: &str) {
        self.print(&self.0.terminal().colors().strong(text));
    }

    fn step(&self, text: &str) {
        self.print(&format!("\n{}", self.0.terminal().colors().strong(text)));
    }

    fn line(&self, text: &str) {
        self.print(&format!("   {text}"));
    }

    /// The scorecard; for the first run only its last lines, to fit on one screen.
    fn summary(&self, report: &EvalReport, baseline: Option<&EvalReport>) {
        let terminal = self.0.terminal();
        let style = Style {
            width: terminal.width().map(|columns| columns.saturating_sub(3)),
            only_not_passed: true,
            ..terminal.style()
        };
        let card = scorecard(report, baseline, style);
        for line in card.lines() {
            self.print(format!("   {line}").trim_end());
        }
    }

    fn decision(&self, what: &str, unmet: &[Requirement]) {
        let colors = self.0.terminal().colors();
        if unmet.is_empty() {
            self.line(&format!(
                "{} {what}: allowed, every condition is met",
                colors.good("✓")
            ));
        }
        for (n, condition) in unmet.iter().enumerate() {
            let head = if n == 0 {
                format!("{} {what}: refused, ", colors.bad("✗"))
            } else {
                format!("{:width$}and ", "", width = what.chars().count() + 4)
            };
            self.line(&format!("{head}{}", condition.message));
        }
    }

    fn print(&self, text: &str) {
        if !self.0.terminal().json() {
            self.0.terminal().print(text);
        }
    }
}

fn next_steps(
    context: &Context<'_>,
    story: &Story,
    kept: Option<&Path>,
    arguments: &Arguments,
) -> String {
    let colors = context.terminal().colors();
    let program = program();
    let program = quoted(&program);
    let mut text = format!("\n{}\n", colors.strong("What to try next"));
    let mut step = |what: &str, commands: &str| {
        let _ = writeln!(text, "   {what}");
        for command in commands.lines() {
            let _ = writeln!(text, "     {}", colors.command(command));
        }
    };
    match kept {
        Some(folder) => {
            let folder = folder.display().to_string();
            let program = format!("{program} --data {}", quoted(&folder));
            step(
                "open both runs in a browser: create a key, start the console at http://127.0.0.1:7800/, \
                 and sign in with the key:",
                &format!(
                    "{program} key create --tenant {LOCAL_TENANT} --scope all\n{program} serve"
                ),
            );
            step(
                "show every recorded event of the second run:",
                &format!("{program} run events {}", story.candidate.run_id),
            );
            step(
                "attack the same agent on a real model:",
                &format!(
                    "{program} eval {ADVERSARIAL} --agent {AGENT} --mode adversarial --model-url http://127.0.0.1:11434/v1 \
                     --model llama3.2"
                ),
            );
        }
        None => step(
            "run it again and keep the database:",
            &format!("{program} demo --keep"),
        ),
    }
    if arguments.model_url.is_none() {
        step(
            "run the same agent on a real model (Ollama, vLLM, llama.cpp, OpenAI, …):",
            &format!("{program} demo --model-url http://127.0.0.1:11434/v1 --model llama3.2"),
        );
    }
    step(
        "evaluate your own agent in five minutes (README: Evaluate your own agent):",
        &format!("{program} pack init my-agent --name vendor.acme.my-agent"),
    );
    text
}

fn failed(code: &'static str, cause: &dyn std::error::Error) -> Failure {
    Failure::not_done(code, format!("the demo failed: {cause}"))
}

fn refused(refusal: touchstone_packs::rules::Refusal) -> Failure {
    Failure::not_done(
        "demo_went_otherwise",
        format!("the host refused the demo's pack: {refusal}"),
    )
}
