//! `touchstone rating score`: score a file of evidence events without a host.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::{AssessmentType, dimension};
use crate::render as rating;
use crate::render::view::ResultView;
use crate::rules::assessment::calibration::{Calibration, Scores, calibrate};
use crate::rules::evidence;
use crate::rules::evidence::Listed;
use crate::rules::{
    Assessment, Config, Dimension, Event, Insufficient, Override, Scored, ScoringError, score,
};
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::render::words::plain;
use touchstone_kit::json::value_of;

/// Maximum size of an evidence file in bytes.
const MAX_OCTETS: u64 = 256 << 20;
const DAY_SECONDS: i64 = 86_400;

const EXAMPLES: &str = "\
FILE holds evidence events as a JSON array, as JSON Lines, or as one JSON object with `events` and
optionally `assessment`, `config`, `overrides` and `previous`. The result depends only on the
file: without --until, the window ends at midnight UTC after the last event.

Exit codes: 0 scored, 2 the file or the configuration cannot be used, 4 insufficient evidence.

Examples:
  touchstone rating score events.jsonl
  touchstone rating score events.json --type passive_only \\
    --until 2026-04-16T00:00:00Z --json
  touchstone rating score - --config weights.json --dimension accuracy";

/// Score a file of evidence events, without a host and without storing anything
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// File with the events; `-` for stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    // Same name and type as the host's configuration option, which it replaces: this command uses
    // no host.
    /// JSON file with weights, taxonomy and thresholds [default for missing values: those of the
    /// AAAF specification]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Evidence to count [default: full]
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<AssessmentType>,
    /// Score only this dimension; the minimum number of tasks does not
    /// apply, and there is no tier
    #[arg(long, value_name = "DIMENSION", value_parser = dimension, conflicts_with = "kind")]
    dimension: Option<Dimension>,
    /// Start of the window for passive evidence [default: 30 days before its end, unless configured
    /// otherwise]
    #[arg(long, value_name = "TIME")]
    since: Option<Timestamp>,
    /// End of the window, exclusive [default: midnight after the last event]
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
    /// Id of the agent to score; required if the file holds events of several agents
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// Id of the assessment whose stress test counts
    #[arg(long, value_name = "ID")]
    assessment: Option<String>,
}

/// Optional members of a document besides its events.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScoringOptions {
    assessment: Option<Assessment>,
    config: Option<Value>,
    #[serde(default)]
    overrides: Vec<Override>,
    previous: Option<Scores>,
}

pub fn run(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    let file = &arguments.file;
    let Listed { events, options } = evidence::list(&text(file)?).map_err(|fault| {
        unusable(file, &fault).or_try("see docs/ratings.md for what an event looks like")
    })?;
    let options: ScoringOptions = serde_path_to_error::deserialize(Value::Object(options))
        .map_err(|fault| unusable(file, &fault))?;
    let config = config(arguments, &options)?;
    let (agent, events) = of_agent(arguments, events)?;
    let assessment = assessment(arguments, &options, &config, &events)?;
    let scored = score(&events, &assessment, &config, &options.overrides)
        .map_err(|unscored| not_scored(file, unscored))?;
    let calibration = calibration(&options, &scored, &config);
    let terminal = context.terminal();
    if terminal.json() {
        let mut document = json!(scored);
        if let Value::Object(members) = &mut document {
            members.insert("ok".to_owned(), json!(true));
            members.insert("status".to_owned(), json!("completed"));
            members.insert("agent_id".to_owned(), json!(agent));
            members.insert("assessment".to_owned(), json!(assessment));
            members.insert("config".to_owned(), json!(config));
            if let Some(calibration) = &calibration {
                members.insert("calibration".to_owned(), json!(calibration));
            }
        }
        terminal.document(&document);
    } else {
        // Parsed back from its document, so that file and host results are displayed by the same
        // code.
        let found: ResultView =
            serde_json::from_value(json!(scored)).map_err(|fault| Failure::unexpected(&fault))?;
        let shown = rating::RatingDisplay {
            agent: &agent,
            kind: assessment.kind.as_str(),
            window: [assessment.window_start, assessment.window_end],
            config: &config,
            found: &found,
            calibration: calibration.as_ref(),
        };
        terminal.print(&rating::rating(&shown, terminal.style()));
        let idle = stress_tests_left_out(&events, &assessment);
        if idle > 0 {
            terminal.note(&format!(
                "note: ignored {idle} events of stress tests; select one with --assessment"
            ));
        }
    }
    Ok(Exit::Good)
}

fn unusable(file: &Path, fault: &dyn std::fmt::Display) -> Failure {
    // The error may quote the file, whose content is untrusted.
    let message = plain(&format!("{}: {fault}", file.display()));
    Failure::bad_input("INVALID_REQUEST", message)
}

fn text(file: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        std::io::stdin()
            .take(MAX_OCTETS + 1)
            .read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|it| it.take(MAX_OCTETS + 1).read_to_end(&mut bytes))
    };
    read.map_err(|cause| unusable(file, &format!("cannot be read: {cause}")))?;
    if bytes.len() as u64 > MAX_OCTETS {
        let most = format!("is larger than {MAX_OCTETS} bytes; score fewer events at a time");
        return Err(unusable(file, &most));
    }
    String::from_utf8(bytes).map_err(|fault| unusable(file, &format!("is not UTF-8: {fault}")))
}

fn config(arguments: &Arguments, options: &ScoringOptions) -> Result<Config, Failure> {
    let (file, document) = match (&arguments.config, &options.config) {
        (Some(file), _) => {
            let document = serde_json::from_str(&text(file)?);
            (file, document.map_err(|fault| unusable(file, &fault))?)
        }
        (None, Some(document)) => (&arguments.file, document.clone()),
        (None, None) => return Ok(Config::default()),
    };
    Config::read(&document).map_err(|fault| {
        let message = plain(&format!("{}: {fault}", file.display()));
        Failure::bad_input(fault.code(), message)
    })
}

/// The agent and its events. Refuses events of several agents: together they rate none of them.
fn of_agent(
    arguments: &Arguments,
    mut events: Vec<Event>,
) -> Result<(String, Vec<Event>), Failure> {
    if let Some(agent) = &arguments.agent {
        events.retain(|event| event.agent_id == *agent);
        return Ok((agent.clone(), events));
    }
    let Some(first) = events.first() else {
        let message = plain(&format!("{}: has no events", arguments.file.display()));
        return Err(Failure::inconclusive(Insufficient::CODE, message));
    };
    let agent = first.agent_id.clone();
    if events.iter().any(|event| event.agent_id != agent) {
        let several = unusable(&arguments.file, &"has events of several agents");
        return Err(several.or_try(plain(&format!("--agent {agent}"))));
    }
    Ok((agent, events))
}

fn assessment(
    arguments: &Arguments,
    options: &ScoringOptions,
    config: &Config,
    events: &[Event],
) -> Result<Assessment, Failure> {
    let recorded = options.assessment.as_ref();
    let (mut kind, mut dimension) = match recorded.map(|it| it.kind) {
        Some(kind) => (kind.as_str(), kind.dimension()),
        None => ("full", None),
    };
    if let Some(only) = arguments.dimension {
        (kind, dimension) = ("single_dimension", Some(only));
    } else if let Some(requested) = arguments.kind {
        (kind, dimension) = (requested.as_str(), None);
    }
    let end = arguments.until.or(recorded.map(|it| it.window_end));
    let end = match end.or_else(|| midnight_after(events)) {
        Some(end) => end,
        None => {
            return Err(unusable(
                &arguments.file,
                &"has no events, so the window has no end",
            ));
        }
    };
    let days = i64::from(config.rules.assessment_window_days);
    let start = arguments.since.or(recorded.map(|it| it.window_start));
    let start = start.or_else(|| end.checked_sub(SignedDuration::from_hours(24 * days)).ok());
    let id = arguments
        .assessment
        .clone()
        .or(recorded.and_then(|it| it.id.clone()));
    Assessment::new(id, kind, dimension, start.unwrap_or(Timestamp::MIN), end)
        .map_err(|fault| unusable(&arguments.file, &fault))
}

fn midnight_after(events: &[Event]) -> Option<Timestamp> {
    let last = events.iter().map(|event| event.timestamp).max()?;
    let day = last.as_second().div_euclid(DAY_SECONDS);
    Timestamp::from_second((day + 1) * DAY_SECONDS).ok()
}

fn stress_tests_left_out(events: &[Event], assessment: &Assessment) -> usize {
    let others =
        |event: &&Event| event.assessment_id.is_some() && event.assessment_id != assessment.id;
    events.iter().filter(others).count()
}

fn calibration(options: &ScoringOptions, scored: &Scored, config: &Config) -> Option<Calibration> {
    let Scored::Rating(rating) = scored else {
        return None;
    };
    let current = Scores::from(rating.as_ref());
    let delta = config.rules.calibration_delta;
    Some(calibrate(
        options.previous.as_ref()?,
        &current,
        delta,
        false,
    ))
}

fn not_scored(file: &Path, unscored: ScoringError) -> Failure {
    match unscored {
        ScoringError::Override(fault) => unusable(file, &fault),
        ScoringError::Insufficient(insufficient) => {
            let message = format!("{}: {insufficient}", file.display());
            let mut failure = Failure::inconclusive(Insufficient::CODE, message);
            if let Value::Object(details) = value_of(&insufficient) {
                failure.details = details;
            }
            failure
        }
    }
}
