//! `touchstone rating assess`: assess an agent from its evidence, and wait for the rating.

use axum::http::Method;
use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::cli::{API, Agent, AssessmentType, agent, agents, moment, with_remedy};
use crate::render as rating;
use crate::render::RatingDisplay;
use crate::render::view::AssessmentView;
use crate::rules::{Config, Dimension, Insufficient};
use touchstone_host::cli::client::Client;
use touchstone_host::cli::client::transport::Call;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure, of_code};
use touchstone_host::cli::retry::{LOOK_EVERY, LOOK_FIRST, retry_until_answered};
use touchstone_host::cli::terminal::Terminal;
use touchstone_host::render::words::plain;
use touchstone_runs::cli::progress::Counted;

const EXAMPLES: &str = "\
Without --type, the assessment uses passive evidence only (passive_only) and does not run the
agent. The types full and stress_test_only run the host's stress tests, whose tasks call the
agent's model and may cost money.

Exit codes: 0 rated, 2 bad input, 3 could not complete, 4 insufficient evidence. With --all, the
exit code is that of the worst result; an error is worse than insufficient evidence.

Examples:
  touchstone rating assess triage
  touchstone rating assess triage --since 2026-04-01 --json
  touchstone rating assess triage --dimension accuracy
  touchstone rating assess --all";

/// Compute the rating of an agent on both axes from its evidence
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Agent, by name or id
    #[arg(value_name = "AGENT", required_unless_present = "all")]
    agent: Option<String>,
    /// Assess every enrolled agent
    #[arg(long, conflicts_with = "agent")]
    all: bool,
    /// Evidence to count [default: passive_only]
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<AssessmentType>,
    /// With --type full: rate from recorded evidence without running stress tests
    #[arg(long, requires = "kind")]
    no_stress_test: bool,
    /// Assess only this dimension; the minimum number of tasks does not
    /// apply, and there is no tier
    #[arg(long, value_name = "DIMENSION", value_parser = crate::cli::dimension, conflicts_with = "kind")]
    dimension: Option<Dimension>,
    /// Start of the evidence window [default: 30 days before its end, unless configured otherwise]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Timestamp>,
    /// End of the evidence window, exclusive [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Timestamp>,
    /// Request the assessment from the host and return without waiting for the result
    #[arg(long, conflicts_with = "all")]
    no_wait: bool,
}

impl Arguments {
    fn order(&self, agent: &Agent) -> Value {
        let mut order = json!({"agent_id": agent.id});
        let mut add = |name: &str, value: Value| {
            if let Value::Object(members) = &mut order {
                members.insert(name.to_owned(), value);
            }
        };
        match (self.dimension, self.kind) {
            (Some(dimension), _) => {
                add("type", json!("single_dimension"));
                add("dimension", json!(dimension));
            }
            (None, kind) => {
                let kind = kind.unwrap_or(AssessmentType::PassiveOnly);
                add("type", json!(kind.as_str()));
                if self.no_stress_test && matches!(kind, AssessmentType::Full) {
                    add("include_stress_test", json!(false));
                }
            }
        }
        for (name, moment) in [("window_start", self.since), ("window_end", self.until)] {
            if let Some(moment) = moment {
                add(name, json!(moment));
            }
        }
        order
    }
}

pub async fn run(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    if arguments.no_wait && context.is_embedded() {
        return Err(crate::cli::no_wait_needs_host());
    }
    let session = context.assess().await?;
    let outcome = match &arguments.agent {
        Some(named) => assess_one(context, session.client(), arguments, named).await,
        None => assess_all(context, session.client(), arguments).await,
    };
    session.close().await;
    outcome
}

async fn assess_one(
    context: &Context<'_>,
    client: &Client,
    arguments: &Arguments,
    named: &str,
) -> Result<Exit, Failure> {
    let agent = agent(client, named).await?;
    let ordered = request_assessment(client, "assessments", &arguments.order(&agent)).await?;
    if arguments.no_wait {
        return show_requested(context.terminal(), &ordered);
    }
    wait_for_result(context.terminal(), client, &agent, &ordered).await
}

/// Waits until an assessment has ended, and prints its result.
pub(super) async fn wait_for_result(
    terminal: &Terminal,
    client: &Client,
    agent: &Agent,
    ordered: &Value,
) -> Result<Exit, Failure> {
    let bar = Counted::open(terminal);
    let ended = follow(client, ordered, |assessed| {
        bar.reach(
            0,
            format!("{}: {}", plain(&agent.name), plain(&assessed.status)),
        );
    });
    let ended = ended.await;
    bar.clear();
    let (document, assessed) = ended?;
    if let Some(fault) = assessed.error {
        return Err(failed(fault));
    }
    if terminal.json() {
        terminal.document(&document);
    } else {
        terminal.print(&display(agent, &assessed, terminal)?);
        if assessed.review_required {
            terminal.note("the rating waits for a review by a principal other than the requester: `touchstone rating review` or POST /api/v1/assessments/ID/review");
        }
    }
    Ok(Exit::Good)
}

pub(super) fn show_requested(terminal: &Terminal, ordered: &Value) -> Result<Exit, Failure> {
    if terminal.json() {
        terminal.document(ordered);
    } else {
        let ordered = read(ordered)?;
        terminal.print(&format!(
            "assessment {} is {}",
            plain(&ordered.id),
            plain(&ordered.status)
        ));
    }
    Ok(Exit::Good)
}

/// Assesses all agents one by one: a host limits concurrent assessments.
async fn assess_all(
    context: &Context<'_>,
    client: &Client,
    arguments: &Arguments,
) -> Result<Exit, Failure> {
    let terminal = context.terminal();
    let agents = agents(client).await?;
    if agents.is_empty() {
        return Err(Failure::bad_input("NOT_FOUND", "no agents are enrolled")
            .or_try("enroll one with touchstone rating enroll NAME"));
    }
    let bar = Counted::new(terminal, agents.len() as u64);
    let (mut worst, mut documents) = (Exit::Good, Vec::new());
    for (done, agent) in (0..).zip(&agents) {
        bar.reach(done, plain(&agent.name));
        let outcome = match request_assessment(client, "assessments", &arguments.order(agent)).await
        {
            Ok(ordered) => follow(client, &ordered, |_| {}).await,
            Err(failure) => Err(failure),
        };
        let outcome = outcome.and_then(|(document, assessed)| match assessed.error {
            Some(fault) => Err(failed(fault)),
            None => Ok((document, assessed.clone())),
        });
        let name = plain(&agent.name);
        let mut listed = json!({"agent_id": agent.id, "name": agent.name});
        let (line, member, document) = match outcome {
            Ok((document, assessed)) => (result_line(&assessed), "assessment", document),
            Err(failure) => {
                let failure = with_remedy(context, failure);
                worst = worse(worst, failure.exit);
                let error = json!({"code": failure.code, "message": failure.message, "details": failure.details});
                (plain(&failure.message), "error", error)
            }
        };
        if let Value::Object(members) = &mut listed {
            members.insert(member.to_owned(), document);
        }
        if terminal.json() {
            documents.push(listed);
        } else {
            bar.say(|| terminal.print(&format!("{name}  {line}")));
        }
    }
    bar.clear();
    if terminal.json() {
        terminal.document(&json!({"ok": worst == Exit::Good, "assessments": documents}));
    }
    Ok(worst)
}

/// The worse exit code; an error is worse than insufficient evidence.
fn worse(one: Exit, other: Exit) -> Exit {
    let severity = |exit: Exit| match exit {
        Exit::Good => 0,
        Exit::Inconclusive => 1,
        Exit::Negative => 2,
        Exit::BadInput => 3,
        Exit::NotDone => 4,
    };
    if severity(other) > severity(one) {
        other
    } else {
        one
    }
}

/// Requests an assessment. First waits for one that an earlier command left unfinished.
pub(super) async fn request_assessment(
    client: &Client,
    endpoint: &str,
    order: &Value,
) -> Result<Value, Failure> {
    let ordered = request_once(client, endpoint, order).await;
    let Err(failure) = &ordered else {
        return ordered;
    };
    let Some(id) = failure.details.get("carried_on").and_then(Value::as_str) else {
        return ordered;
    };
    let path = format!("{API}/assessments/{id}");
    let earlier: Value = retry_until_answered(|| client.get(&path)).await?;
    follow(client, &earlier, |_| {}).await?;
    request_once(client, endpoint, order).await
}

/// Requests an assessment, once even if the answer is lost.
async fn request_once(client: &Client, endpoint: &str, order: &Value) -> Result<Value, Failure> {
    let key = Uuid::now_v7().to_string();
    let path = format!("{API}/{endpoint}");
    let ordered = retry_until_answered(|| {
        let call = Call::new(Method::POST, &path).header("idempotency-key", &key);
        client.call(call.json(order))
    });
    ordered.await.map_err(|failure| match &*failure.code {
        Insufficient::CODE => {
            failure.or_try("collect more with touchstone rating collect --source FILE, or use an earlier --since")
        }
        _ if failure.details.get("field").and_then(Value::as_str) == Some("include_stress_test") => {
            failure.or_try("use --type full --no-stress-test, or `touchstone rating enroll NAME --openwop-agent AGENT --update` (or --a2a, --openwop-host, --command)")
        }
        _ => failure,
    })
}

/// Polls until the assessment has ended; returns its raw and parsed documents.
async fn follow(
    client: &Client,
    ordered: &Value,
    mut seen: impl FnMut(&AssessmentView),
) -> Result<(Value, AssessmentView), Failure> {
    let (mut document, mut assessed) = (ordered.clone(), read(ordered)?);
    let path = format!("{API}/assessments/{}", assessed.id);
    let mut pause = LOOK_FIRST;
    while !assessed.has_ended() {
        seen(&assessed);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LOOK_EVERY);
        document = retry_until_answered(|| client.get(&path)).await?;
        assessed = read(&document)?;
    }
    Ok((document, assessed))
}

fn read(document: &Value) -> Result<AssessmentView, Failure> {
    serde_json::from_value(document.clone()).map_err(|fault| Failure::unexpected(&fault))
}

fn failed(fault: rating::view::AssessmentError) -> Failure {
    let exit = of_code(&fault.code, Exit::NotDone);
    Failure {
        details: fault.details,
        ..Failure::new(exit, fault.code, plain(&fault.message))
    }
}

fn display(
    agent: &Agent,
    assessed: &AssessmentView,
    terminal: &Terminal,
) -> Result<String, Failure> {
    let config = Config::read(&assessed.config_snapshot).map_err(|fault| {
        Failure::not_done("unexpected_answer", format!("config_snapshot: {fault}"))
            .or_try("check that host and command have the same version")
    })?;
    let Some(found) = &assessed.result else {
        return Err(Failure::not_done(
            "unexpected_answer",
            "the completed assessment has no result",
        ));
    };
    let display = RatingDisplay {
        agent: &agent.name,
        kind: &assessed.kind,
        window: [assessed.window_start, assessed.window_end],
        config: &config,
        found,
        calibration: assessed.calibration.as_ref(),
    };
    let colors = terminal.colors();
    let id = colors.faint(&plain(&assessed.id));
    Ok(format!(
        "{}{}assessment   {id}\n",
        rating::rating(&display, terminal.style()),
        rating::intervals_and_improvements(assessed, colors)
    ))
}

/// The result in one line.
fn result_line(assessed: &AssessmentView) -> String {
    let Some(found) = &assessed.result else {
        return plain(&assessed.status);
    };
    let mut line = rating::one_line(found);
    if assessed.review_required {
        line.push_str("; waits for a review");
    }
    line
}
