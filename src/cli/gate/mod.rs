//! `touchstone gate`: conditions for the promotion of a version.

pub mod oasis;
pub mod policy;
mod words;

use std::path::PathBuf;

use axum::http::Method;
use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Value, json};

pub use crate::cli::gate::policy::Policy;
use crate::cli::gate::policy::Scoped;
use crate::cli::gate::words::{line, words};
use touchstone_agent_cards::gate::CardPolicy;
use touchstone_agent_cards::rules::points::Points;
use touchstone_deployments::cli::deploy::{Subject, agent_id, subject};
use touchstone_deployments::promotion::Requirement;
use touchstone_host::cli::client::transport::Call;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_ratings::gate::RatingPolicy;
use touchstone_ratings::rules::Tier;
use touchstone_ratings::rules::evidence::Recorder;
use touchstone_runs::cli::eval::advice::with_similar_agents;
use touchstone_runs::cli::run::reference::resolve_all;
use touchstone_runs::cli::run::run_id;
use touchstone_runs::rules::eval::attempts::AttemptIds;
use touchstone_runs::rules::eval::gate::{GatePolicy, MIN_TASKS, Strictness};
use touchstone_runs::rules::eval::rubric::calibration::MIN_AGREEMENT;
use touchstone_runs::rules::workflow::gate::GatePolicy as ApprovalPolicy;
use touchstone_runs::rules::workflow::gate::Override;

const PATH: &str = "/v1/host/touchstone/gates";

/// Show, set and check promotion gates
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  touchstone gate show\n  touchstone gate set --channel stable --min-tasks 20\n  touchstone gate check vendor.acme.triage.default@1.1.0 --channel stable"
)]
pub enum Command {
    /// Show the gate policies and the default policy
    #[command(after_help = "Examples:\n  touchstone gate show\n  touchstone gate show --json")]
    Show,
    /// Set the policy of an agent, a channel, both or neither; the most specific one applies
    #[command(
        after_help = "Examples:\n  touchstone gate set --channel stable --suite vendor.acme.evals.triage \\\n    --min-tasks 20\n  touchstone gate set --allow-unsigned\n  touchstone gate set --channel stable --approval-role release-manager \\\n    --approvals 2\n  touchstone gate set --channel stable --rating --performance-tier Proficient \\\n    --rating-max-age-days 90\n  touchstone gate set --channel stable --oasis oasis-profile-front-desk \\\n    --oasis-tier 2\n  touchstone gate set --agent vendor.acme.triage.default --file policy.json"
    )]
    Set(Box<Set>),
    /// Delete a policy
    #[command(after_help = "Examples:\n  touchstone gate remove --channel stable")]
    Remove(Scope),
    /// Check whether a version may be promoted; changes nothing
    #[command(
        after_help = "Exit codes: 0 allowed, 1 refused (reasons are printed), 2 bad input, 3 could not complete.\n\nExamples:\n  touchstone gate check vendor.acme.triage.default@1.1.0 --channel stable\n  touchstone gate check vendor.acme.triage.default@1.1.0 --eval-run run_0199c0de"
    )]
    Check(Check),
}

#[derive(Debug, Args)]
pub struct Scope {
    /// Agent the policy applies to [default: every agent]
    #[arg(long, value_name = "AGENT", value_parser = agent_id)]
    agent: Option<String>,
    /// Channel the policy applies to [default: every channel]
    #[arg(long)]
    channel: Option<String>,
}

#[derive(Debug, Args)]
pub struct Set {
    #[command(flatten)]
    scope: Scope,
    /// JSON file with the whole policy, instead of the options below
    #[arg(long, value_name = "FILE", conflicts_with_all = ["no_eval", "suite", "pass_score", "lenient", "min_tasks", "min_judge_agreement", "allow_uncalibrated_judge", "max_age_hours",
        "allow_unsigned", "allow_ignore", "allow_missing_fixtures", "allow_partial_suite", "allow_partial_rerun",
        "allow_forbidden_tools", "allow_replay", "allow_agent_command",
        "approval_role", "approval_scope", "approvals", "exclude_requester", "override_role", "rating", "agent_card", "oasis"])]
    file: Option<PathBuf>,
    /// Require no eval run
    #[arg(long, conflicts_with_all = ["suite", "pass_score", "lenient", "min_tasks", "min_judge_agreement", "allow_uncalibrated_judge", "max_age_hours", "allow_unsigned", "allow_ignore",
        "allow_missing_fixtures", "allow_partial_suite", "allow_partial_rerun", "allow_forbidden_tools", "allow_replay", "allow_agent_command"])]
    no_eval: bool,
    /// Accept eval runs of this suite only
    #[arg(long, value_name = "SUITE")]
    suite: Option<String>,
    /// Minimum score, 0 to 1, instead of the suite's pass score
    #[arg(long, value_name = "SCORE")]
    pass_score: Option<f64>,
    /// Accept a score whose confidence interval includes the pass score
    #[arg(long)]
    lenient: bool,
    /// Minimum number of tasks
    #[arg(long, value_name = "N", default_value_t = MIN_TASKS)]
    min_tasks: usize,
    /// Minimum agreement of the rubric judge with people: Spearman's rho, 0 to 1 [default: 0.8]
    #[arg(long, value_name = "RHO")]
    min_judge_agreement: Option<f64>,
    /// Accept rubric scores of a judge without a judge calibration
    #[arg(long, conflicts_with = "min_judge_agreement")]
    allow_uncalibrated_judge: bool,
    /// Maximum age of the eval run in hours, from its end
    #[arg(long, value_name = "HOURS")]
    max_age_hours: Option<u64>,
    /// Accept a suite without a trusted signature
    #[arg(long)]
    allow_unsigned: bool,
    /// Accept a run that ignored members when matching
    #[arg(long)]
    allow_ignore: bool,
    /// Accept a run in which a tool call had no fixture
    #[arg(long)]
    allow_missing_fixtures: bool,
    /// Accept a run of part of the suite
    #[arg(long)]
    allow_partial_suite: bool,
    /// Accept a branch that reused judged tasks of another run
    #[arg(long)]
    allow_partial_rerun: bool,
    /// Accept a run in which the agent called a tool outside its allowlist
    #[arg(long)]
    allow_forbidden_tools: bool,
    /// Accept a run replayed from a cassette
    #[arg(long)]
    allow_replay: bool,
    /// Accept a run in which a local command acted as the agent (--agent-command), or decided
    /// assertions (--assert-command)
    #[arg(long)]
    allow_agent_command: bool,
    /// Require approval by principals with this role
    #[arg(long, value_name = "ROLE")]
    approval_role: Option<String>,
    /// Require approval by principals with this scope
    #[arg(long, value_name = "SCOPE")]
    approval_scope: Option<String>,
    /// Number of different principals who must approve
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    approvals: u32,
    /// Refuse the approval of the principal who asked for the promotion
    #[arg(long)]
    exclude_requester: bool,
    /// Role whose principals may override the approval without the other approvers
    #[arg(long, value_name = "ROLE")]
    override_role: Option<String>,
    /// Require a rating of the version with a valid badge
    #[arg(long)]
    rating: bool,
    /// Minimum performance tier, such as Proficient
    #[arg(long, value_name = "TIER", requires = "rating")]
    performance_tier: Option<Tier>,
    /// Minimum capability tier, such as Versatile
    #[arg(long, value_name = "TIER", requires = "rating")]
    capability_tier: Option<Tier>,
    /// Maximum age of the rating in days, from its end
    #[arg(long, value_name = "DAYS", requires = "rating")]
    rating_max_age_days: Option<u32>,
    /// Required source of the rating's evidence: host, person, grader, organization or agent;
    /// repeat for several
    #[arg(long = "rating-source", value_name = "SOURCE", requires = "rating", value_parser = source)]
    rating_sources: Vec<Recorder>,
    /// Minimum percentage of the rating's evidence from these sources, 1 to 100 [default: 100]
    #[arg(long, value_name = "PERCENT", requires = "rating_sources", value_parser = clap::value_parser!(u8).range(1..=100))]
    rating_source_percent: Option<u8>,
    /// Accept a rating without a valid badge
    #[arg(long, requires = "rating")]
    allow_no_badge: bool,
    /// Require recorded scores of the agent card at this URL
    #[arg(long, value_name = "URL")]
    agent_card: Option<String>,
    /// Minimum compliance score of the card, 0 to 100 [default: 95]
    #[arg(long, value_name = "N", requires = "agent_card")]
    card_min_compliance: Option<Points>,
    /// Minimum trust score of the card, 0 to 100 [default: 60]
    #[arg(long, value_name = "N", requires = "agent_card")]
    card_min_trust: Option<Points>,
    /// Minimum availability score of the agent, 0 to 100 [default: 80]
    #[arg(long, value_name = "N", requires = "agent_card")]
    card_min_availability: Option<Points>,
    /// Accept a card whose agent was not probed
    #[arg(
        long,
        requires = "agent_card",
        conflicts_with = "card_min_availability"
    )]
    allow_untested_card: bool,
    /// Maximum age of the card's scores in hours [default: 168]
    #[arg(long, value_name = "HOURS", requires = "agent_card")]
    card_max_age_hours: Option<u32>,
    #[command(flatten)]
    oasis: oasis::PassConditions,
}

#[derive(Debug, Args)]
pub struct Check {
    /// Agent and version
    #[arg(value_name = "AGENT@VERSION", value_parser = subject)]
    subject: Subject,
    /// Channel to promote to
    #[arg(long)]
    channel: Option<String>,
    /// Share of the channel's traffic in percent, 0 to 100 [default: all of it]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    canary: Option<u8>,
    /// Eval run to use as evidence, by its id or a unique start of it, `latest` or `latest-passed`;
    /// its scores are pooled with every other run of the same agent,
    /// suite and model [default: the version's newest run]
    #[arg(long, value_name = "RUN", value_parser = run_id)]
    eval_run: Option<String>,
}

impl Set {
    fn policy(&self) -> Result<Value, Failure> {
        if let Some(file) = &self.file {
            let text = std::fs::read(file).map_err(|cause| {
                let text = format!("could not read {}: {cause}", file.display());
                Failure::bad_input("unreadable", text)
                    .or_try("name a file that exists and that this user can read")
            })?;
            return serde_json::from_slice(&text).map_err(|fault| {
                Failure::bad_input(
                    "no_policy",
                    format!("{} is not JSON: {fault}", file.display()),
                )
            });
        }
        let eval = (!self.no_eval).then(|| GatePolicy {
            suite_id: self.suite.clone(),
            require_signed_suite: !self.allow_unsigned,
            required_pass_score: self.pass_score,
            confidence: if self.lenient {
                Strictness::Lenient
            } else {
                Strictness::Strict
            },
            min_judge_agreement: (!self.allow_uncalibrated_judge)
                .then_some(self.min_judge_agreement.unwrap_or(MIN_AGREEMENT)),
            min_tasks: self.min_tasks,
            allow_ignore: self.allow_ignore,
            allow_missing_fixtures: self.allow_missing_fixtures,
            allow_partial_suite: self.allow_partial_suite,
            allow_forbidden_tools: self.allow_forbidden_tools,
            allow_partial_rerun: self.allow_partial_rerun,
            allow_replay: self.allow_replay,
            allow_agent_command: self.allow_agent_command,
            max_age_seconds: self.max_age_hours.map(|hours| hours.saturating_mul(3600)),
        });
        let asked = self.approval_role.is_some() || self.approval_scope.is_some();
        let depends = self.approvals > 1 || self.exclude_requester || self.override_role.is_some();
        if !asked && depends {
            return Err(Failure::usage(
                "--approvals, --exclude-requester and --override-role need an approving role or \
                 scope",
            )
            .or_try("add --approval-role or --approval-scope"));
        }
        let approval = asked.then(|| ApprovalPolicy {
            required_role: self.approval_role.clone(),
            required_scope: self.approval_scope.clone(),
            quorum: self.approvals,
            exclude_requester: self.exclude_requester,
            over: self.override_role.clone().map(|required_role| Override {
                required_role,
                audited: true,
            }),
        });
        let rating = self.rating.then_some(RatingPolicy {
            minimum_performance_tier: self.performance_tier,
            minimum_capability_tier: self.capability_tier,
            valid_badge: !self.allow_no_badge,
            max_age_days: self.rating_max_age_days,
            evidence_sources: (!self.rating_sources.is_empty())
                .then(|| self.rating_sources.iter().copied().collect()),
            minimum_evidence_percent: self.rating_source_percent,
        });
        Ok(json!(Policy {
            eval,
            approval,
            rating,
            agent_card: self.agent_card.clone().map(|url| self.card(url)),
            oasis: self.oasis.policy(),
        }))
    }

    fn card(&self, url: String) -> CardPolicy {
        let mut policy = CardPolicy::of(url);
        for (least, named) in [
            (&mut policy.minimum_compliance, self.card_min_compliance),
            (&mut policy.minimum_trust, self.card_min_trust),
        ] {
            *least = named.unwrap_or(*least);
        }
        if self.allow_untested_card {
            policy.minimum_availability = None;
        } else if let Some(least) = self.card_min_availability {
            policy.minimum_availability = Some(least);
        }
        if let Some(hours) = self.card_max_age_hours {
            policy.max_age_hours = hours;
        }
        policy
    }
}

#[derive(Deserialize, serde::Serialize)]
struct Shown {
    policies: Vec<Scoped>,
    default: Policy,
}

/// The gate's answer; members that this command does not read are passed through.
#[derive(Deserialize)]
struct Checked {
    allowed: bool,
    unmet: Vec<Requirement>,
    attempts: Option<AttemptIds>,
}

pub async fn run(context: &Context<'_>, mut command: Command) -> Result<Exit, Failure> {
    if let Command::Check(check) = &mut command {
        resolve_all(context, check.eval_run.iter_mut().collect()).await?;
    }
    let session = match command {
        Command::Set(_) => context.write().await?,
        Command::Show | Command::Remove(_) | Command::Check(_) => context.read().await?,
    };
    let client = session.client();
    let terminal = context.terminal();
    match command {
        Command::Show => {
            let shown: Shown = client.get(PATH).await?;
            if terminal.json() {
                terminal.document(&shown);
            } else {
                for set in &shown.policies {
                    terminal.print(&line(
                        set.scope.agent_id.as_deref(),
                        set.scope.channel.as_deref(),
                        &set.policy,
                    ));
                }
                terminal.print(&format!("else: {}", words(&shown.default)));
            }
            Ok(Exit::Good)
        }
        Command::Set(set) => {
            let body = json!({"agentId": set.scope.agent, "channel": set.scope.channel, "policy": set.policy()?});
            let set: Scoped = client.post(PATH, &body).await?;
            if terminal.json() {
                terminal.document(&set);
            } else {
                terminal.print(&line(
                    set.scope.agent_id.as_deref(),
                    set.scope.channel.as_deref(),
                    &set.policy,
                ));
            }
            Ok(Exit::Good)
        }
        Command::Remove(scope) => {
            let mut query = url::form_urlencoded::Serializer::new(String::new());
            if let Some(agent) = &scope.agent {
                query.append_pair("agentId", agent);
            }
            if let Some(channel) = &scope.channel {
                query.append_pair("channel", channel);
            }
            let path = format!("{PATH}?{}", query.finish());
            let removed: Value = client.call(Call::new(Method::DELETE, &path)).await?;
            if terminal.json() {
                terminal.document(&removed);
            } else {
                terminal.print("removed");
            }
            Ok(Exit::Good)
        }
        Command::Check(check) => {
            let body = json!({"agentId": check.subject.agent, "version": check.subject.version,
                "channel": check.channel, "canaryPercent": check.canary, "evalRunId": check.eval_run});
            let answer: Value = match client.post(&format!("{PATH}/check"), &body).await {
                Err(failure) => {
                    let agent = &check.subject.agent;
                    return Err(with_similar_agents(client, agent, failure).await);
                }
                answer => answer?,
            };
            let checked =
                Checked::deserialize(&answer).map_err(|cause| Failure::unexpected(&cause))?;
            if terminal.json() {
                terminal.document(&answer);
            } else {
                report(context, &check, &answer, &checked);
            }
            Ok(if checked.allowed {
                Exit::Good
            } else {
                Exit::Negative
            })
        }
    }
}

fn report(context: &Context<'_>, check: &Check, answer: &Value, checked: &Checked) {
    let (terminal, colors) = (context.terminal(), context.terminal().colors());
    let what = format!("{}@{}", check.subject.agent, check.subject.version);
    let evidence = answer.get("evalRunId").and_then(Value::as_str).map_or_else(
        || "without an eval run".to_owned(),
        |run| format!("on {run}"),
    );
    if checked.allowed {
        terminal.print(&format!(
            "{} {what} may go into service, {evidence}",
            colors.good("✓")
        ));
    } else {
        terminal.print(&format!(
            "{} {what} may not go into service, {evidence}",
            colors.bad("✗")
        ));
    }
    for unmet in &checked.unmet {
        terminal.print(&format!("  {}", unmet.reason()));
    }
    if let Some(attempts) = checked.attempts.as_ref().filter(|it| it.run_ids.len() > 1) {
        terminal.print(&format!("  {}", attempts_in_words(attempts)));
    }
}

/// Lists the pooled runs; `--json` prints all of them.
fn attempts_in_words(attempts: &AttemptIds) -> String {
    const NAMED: usize = 5;
    let mut named: Vec<String> = attempts
        .run_ids
        .iter()
        .rev()
        .take(NAMED)
        .map(ToString::to_string)
        .collect();
    if attempts.run_ids.len() > NAMED {
        named.push(format!("and {} more", attempts.run_ids.len() - NAMED));
    }
    let voided = match attempts.voided.len() {
        0 => String::new(),
        voided => format!(", {voided} void"),
    };
    format!(
        "pooled with all {} runs of the same agent, suite and model (look {}{voided}): {}",
        attempts.run_ids.len(),
        attempts.looks,
        named.join(", ")
    )
}

fn source(name: &str) -> Result<Recorder, String> {
    Recorder::parse(name).ok_or_else(|| {
        let known: Vec<&str> = Recorder::ALL.iter().map(|it| it.as_str()).collect();
        format!("expected one of {}", known.join(", "))
    })
}
