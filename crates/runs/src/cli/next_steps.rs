//! The commands that a result names as next steps.

use crate::cli::eval::described::CASES_SUITE;
use crate::render::words::counts;
use crate::rules::eval::report::{RunTotals, Verdict};
use crate::rules::eval::statistics::perfect_run_shows;
use touchstone_agents::cli::ConfiguredModels;
use touchstone_agents::model::config::ModelConfig;
use touchstone_host::cli::context::{Context, Session};
use touchstone_host::cli::shell::quoted;

/// A pass score that a small suite can show.
const REACHABLE: f64 = 0.8;
/// Above any number of tasks that shows it.
const MOST_TASKS: usize = 100;
/// What the command for a run without a verdict does.
const CONTINUE: &str = "continue the run, if its process has ended";

/// The command that judges the unjudged tasks of a run.
fn retry(context: &Context<'_>, session: &Session, report: &RunTotals) -> String {
    let (program, flags) = (context.program(), model_flags(context, session, report));
    format!("{program} run retry {}{flags}", report.run_id)
}

/// The command that continues a run whose process has ended.
fn resume(context: &Context<'_>, session: &Session, report: &RunTotals) -> String {
    let (program, flags) = (context.program(), model_flags(context, session, report));
    format!("{program} run continue {}{flags}", report.run_id)
}

/// The flags that select the models of the run: those of this command, or else what the run records
/// of its agent. A command is recorded as a digest only, so its place is held by `COMMAND`.
fn model_flags(context: &Context<'_>, session: &Session, report: &RunTotals) -> String {
    let flags = session.model_flags();
    if !flags.is_empty() || !context.is_embedded() {
        return flags.to_owned();
    }
    if report.is_by_command() {
        return " --agent-command COMMAND".to_owned();
    }
    let configured: ConfiguredModels = context.settings().unwrap_or_default();
    let evaluated = report.evaluated.as_ref();
    let url = evaluated.and_then(|it| it.endpoint.as_ref()?.url.as_deref());
    let (Some(it), Some(url)) = (evaluated, url) else {
        return String::new();
    };
    let is_configured = |entry: &&ModelConfig| entry.model.as_deref() == Some(&it.model);
    if configured.models.iter().any(|entry| is_configured(&entry)) {
        return String::new();
    }
    let provider = match it.provider.as_str() {
        "openai" => String::new(),
        other => format!(" --model-provider {}", quoted(other)),
    };
    let (url, model) = (quoted(url), quoted(&it.model));
    format!(" --model-url {url} --model {model}{provider}")
}

/// The arguments of `eval` for the agent and the suite of a run.
fn installed(report: &RunTotals) -> String {
    format!(
        "{}@{} --agent {}",
        report.suite.suite_id, report.suite.version, report.agent.agent_id
    )
}

/// How to require a score that a finite number of tasks can show. `again` has the arguments of the
/// `eval` command that made the run, without models.
pub(crate) fn lower_score(
    context: &Context<'_>,
    session: &Session,
    report: &RunTotals,
    again: Option<&str>,
) -> String {
    let shown = tasks_that_show(REACHABLE).map_or_else(String::new, |tasks| {
        format!(", which {tasks} passed tasks show")
    });
    if report.suite.suite_id != CASES_SUITE {
        return format!(
            "set `thresholds.passScore` of suite {} below 1, such as {REACHABLE}{shown}",
            report.suite.suite_id
        );
    }
    let (program, flags) = (context.program(), model_flags(context, session, report));
    match again {
        Some(again) => format!(
            "require a score below 1 with `{program} eval {again}{flags} --pass-score \
             {REACHABLE}`{shown}"
        ),
        None => format!("evaluate again with --pass-score {REACHABLE}{shown}"),
    }
}

/// The least number of tasks that show a score if all of them pass.
fn tasks_that_show(score: f64) -> Option<usize> {
    (1..MOST_TASKS).find(|tasks| perfect_run_shows(*tasks, score))
}

/// The step that a reader of a log needs, on one line; `None` if there is none. `is_plain` says that
/// tasks of the run can be retried.
pub(crate) fn main_step(
    context: &Context<'_>,
    session: &Session,
    report: &RunTotals,
    is_plain: bool,
) -> Option<String> {
    match report.lenient_verdict() {
        Verdict::Inconclusive if is_plain => Some(format!(
            "retry the unjudged tasks: {}",
            retry(context, session, report)
        )),
        // Another host continues its runs itself.
        Verdict::Pending if context.is_embedded() => {
            Some(format!("{CONTINUE}: {}", resume(context, session, report)))
        }
        _ => None,
    }
}

/// The next steps below a scorecard in a terminal. `again` has the arguments of the `eval` command
/// that made the run, without models.
pub(crate) fn next_steps(
    context: &Context<'_>,
    session: &Session,
    report: &RunTotals,
    is_plain: bool,
    again: Option<&str>,
) -> String {
    let colors = context.terminal().colors();
    let program = context.program();
    let run = &report.run_id;
    let mut steps = vec![(
        "show every recorded event",
        format!("{program} run events {run}"),
    )];
    match report.lenient_verdict() {
        Verdict::Inconclusive if !is_plain => {}
        Verdict::Inconclusive => steps.insert(
            0,
            ("retry the unjudged tasks", retry(context, session, report)),
        ),
        // A run over other tasks is not comparable.
        Verdict::Pass if counts(report).all() < report.suite.task_count => {}
        Verdict::Pass => {
            let again = again.map_or_else(|| installed(report), str::to_owned);
            let flags = model_flags(context, session, report);
            steps.push((
                "compare a later version with this run",
                format!("{program} eval {again} --baseline {run}{flags}"),
            ));
        }
        Verdict::Pending if context.is_embedded() => {
            steps.push((CONTINUE, resume(context, session, report)));
        }
        Verdict::Fail | Verdict::Pending => {}
    }
    let mut text = String::new();
    for (purpose, command) in steps {
        text.push_str(&format!(
            "{}\n  {}\n",
            colors.faint(purpose),
            colors.command(&command)
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suggested_pass_score_is_shown_by_as_many_tasks_as_the_help_says() {
        assert_eq!(tasks_that_show(REACHABLE), Some(16));
        assert_eq!(tasks_that_show(1.0), None);
    }
}
