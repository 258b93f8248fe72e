//! `touchstone run annotate`: annotate a run or one of its tasks.

use axum::http::Method;
use clap::{ArgGroup, Args};
use serde_json::{Map, Value, json};

use crate::cli::output::print_result;
use crate::cli::run::run_id;
use crate::cli::run::tasks::{NO_SUCH_TASK, suggested};
use crate::render::words::{NOTE, annotation_line};
use touchstone_host::cli::client::transport::Call;
use touchstone_host::cli::client::{Client, EventPage};
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_openwop::annotation::Annotation;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("signal").required(false))]
pub struct Annotate {
    /// Run: its id or a unique start of it, `latest` or `latest-passed`
    #[arg(value_name = "RUN", value_parser = run_id)]
    pub(super) run: String,
    /// Task whose score to annotate [default: the whole run]
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// Correct answer
    #[arg(long, value_name = "TEXT", group = "signal")]
    correct: Option<String>,
    /// Label to attach, for filtering annotations
    #[arg(long, value_name = "TEXT", group = "signal")]
    label: Option<String>,
    /// Rating, 1 (worst) to 5 (best)
    #[arg(long, value_name = "1-5", group = "signal", value_parser = clap::value_parser!(u8).range(1..=5))]
    rating: Option<u8>,
    /// Flag it for review
    #[arg(long, group = "signal")]
    flag: bool,
    /// Note, by itself or to explain the signal
    #[arg(long, value_name = "TEXT", required_unless_present = "signal")]
    note: Option<String>,
}

pub async fn run(context: &Context<'_>, arguments: &Annotate) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let client = session.client();
    let mut body = Map::from_iter([("signal".to_owned(), signal(arguments))]);
    if let Some(task) = &arguments.task {
        let program = context.program();
        let event = scoring_event(client, &program, &arguments.run, task).await?;
        body.insert("target".to_owned(), json!({"eventId": event}));
    }
    if let Some(note) = &arguments.note {
        body.insert("note".to_owned(), json!(note));
    }
    let path = format!("/v1/runs/{}/annotations", arguments.run);
    let created: Annotation = client.post(&path, &Value::Object(body)).await?;
    let subject = arguments.task.as_ref().unwrap_or(&arguments.run);
    print_result(context.terminal(), &created, || {
        format!("{subject} {}", annotation_line(&created))
    });
    Ok(Exit::Good)
}

fn signal(arguments: &Annotate) -> Value {
    match (&arguments.correct, &arguments.label, arguments.rating) {
        (Some(text), _, _) => json!({"kind": "correction", "correction": text}),
        (None, Some(text), _) => json!({"kind": "label", "label": text}),
        (None, None, Some(rating)) => json!({"kind": "rating", "rating": rating}),
        (None, None, None) if arguments.flag => json!({"kind": "flag"}),
        (None, None, None) => json!({"kind": "label", "label": NOTE}),
    }
}

/// The event that scored a task.
async fn scoring_event(
    client: &Client,
    program: &str,
    run: &str,
    task: &str,
) -> Result<String, Failure> {
    let mut after: Option<u64> = None;
    loop {
        let path = format!("/v1/runs/{run}/events?streamMode=updates");
        let mut call = Call::new(Method::GET, &path).header("accept", "application/json");
        if let Some(after) = after {
            call = call.header("last-event-id", &after.to_string());
        }
        let page: EventPage = client.call(call).await?;
        for event in &page.events {
            let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str);
            if text("/type") == Some("eval.scored")
                && text("/payload/taskId") == Some(task)
                && let Some(id) = text("/eventId")
            {
                return Ok(id.to_owned());
            }
        }
        let last = page.events.last().and_then(|event| event.get("sequence"));
        match last.and_then(Value::as_u64) {
            Some(last) if !page.is_complete && after.is_none_or(|after| last > after) => {
                after = Some(last);
            }
            _ => {
                let failure = Failure::bad_input(
                    NO_SUCH_TASK,
                    format!("task {task} has no score in run {run}"),
                )
                .or_try(format!("{program} run show {run}"));
                return Err(suggested(client, run, task, failure).await);
            }
        }
    }
}
