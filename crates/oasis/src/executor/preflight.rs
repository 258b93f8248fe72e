//! The steps before the first environment (OASIS.md sections 2 to 4): the provider's conformance,
//! the agent's report, the plan. They run once; a restart recomputes the same plan from the
//! records.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::executor::PinnedInputs;
use crate::ports::providers::ConformanceAnswer;
use crate::rules::adapter::{AdapterReport, Identity, ReportedConfiguration};
use crate::rules::configuration::Configuration;
use crate::rules::evaluated::{Evaluated, IdentitySource};
use crate::rules::format::{Package, Scenario};
use crate::rules::planning;
use crate::rules::refusal::{Refusal, RefusalCode, RefusalItem};
use crate::rules::request::OasisSpec;
use crate::rules::run::evaluated::evaluated;
use crate::rules::run::events::{
    AgentIdentity, OasisEvent, OasisExcluded, OasisPreflight, ProviderIdentity, RequirementAnswer,
};
use crate::rules::run::facts::OasisFacts;
use crate::rules::verdict::{Plan, PlannedScenario};
use crate::service::evaluations::preflight_of;
use touchstone_openwop::events::{EvalStarted, Event, NewEvent, RunError};
use touchstone_runs::service::executor::endings::{fail, failed};
use touchstone_runs::service::executor::eval::context::RunContext;

/// Asks the provider and the agent, unless their answers are recorded, and plans the run. `None` if
/// the evaluation does not start: the run has failed.
pub(super) async fn run(
    context: &RunContext,
    oasis: &OasisSpec,
    inputs: &PinnedInputs,
) -> Option<Plan> {
    let known = context
        .writer
        .with_state(|state| OasisFacts::of(&state.eval).preflight);
    if let Some(known) = known {
        let planned = plan_again(context, oasis, &inputs.package, known);
        return planned
            .map_err(|refusal| fail(&context.writer, error_of(&refusal)))
            .ok();
    }
    let profile = &inputs.package.profile.identifier;
    let answer = inputs.provider.conformance(profile).await;
    let mut found = OasisPreflight {
        provider: identity(&answer),
        requirements: Vec::new(),
        agent: None,
        configuration: Configuration::new(),
        evaluated: None,
        refusal: None,
    };
    match check(context, oasis, inputs, &answer, &mut found).await {
        Ok(plan) => {
            let mut events = vec![NewEvent::of_run(OasisEvent::Preflight(found).into())];
            events.extend(plan.scenarios.iter().filter_map(excluded));
            events.push(NewEvent::of_run(Event::EvalStarted(EvalStarted {
                suite_id: context.spec.suite_id.clone(),
                suite_version: context.spec.suite_version.clone(),
                task_count: plan.task_count(),
                modes: context.spec.modes.clone(),
                baseline_run_id: None,
                fixture_runs: BTreeMap::new(),
            })));
            context.writer.emit_all(&events);
            Some(plan)
        }
        Err(refusal) => {
            let end = failed(error_of(&refusal));
            found.refusal = Some(refusal);
            let found = NewEvent::of_run(OasisEvent::Preflight(found).into());
            context.writer.emit_all(&[found, end]);
            None
        }
    }
}

/// The plan that follows from the recorded answers.
fn plan_again(
    context: &RunContext,
    oasis: &OasisSpec,
    package: &Package,
    known: OasisPreflight,
) -> Result<Plan, Refusal> {
    if let Some(refusal) = known.refusal {
        return Err(refusal);
    }
    let (suite, configuration) = (context.suite(), &known.configuration);
    planning::plan(package, suite, &oasis.request, configuration)
}

/// Checks the provider's answer, asks the agent and plans the run. The results go into `found`.
async fn check(
    context: &RunContext,
    oasis: &OasisSpec,
    inputs: &PinnedInputs,
    answer: &ConformanceAnswer,
    found: &mut OasisPreflight,
) -> Result<Plan, Refusal> {
    let (package, provider) = (&inputs.package, inputs.provider.as_ref());
    check_requirements(context, oasis, package, answer, found)?;
    let adapter = context.model.model.adapter().await;
    let report = report_of(context, inputs.report.as_ref(), adapter)?;
    found.agent = Some(AgentIdentity {
        name: report.identity.name,
        version: report.identity.version,
    });
    let tolerance = Some(provider.clock_tolerance().as_secs_f64());
    let evaluated = evaluated(&context.spec, report.source, report.declared, tolerance);
    found.evaluated = evaluated.map(|it| {
        Box::new(Evaluated {
            declared_configuration: report.declared_configuration,
            lab_framework: provider.lab_framework().map(str::to_owned),
            ..it
        })
    });
    let schema = &package.profile.agent_configuration_schema;
    found.configuration = schema.effective(&report.configuration)?;
    let (suite, configuration) = (context.suite(), &found.configuration);
    planning::plan(package, suite, &oasis.request, configuration)
}

/// The agent's report.
struct Report {
    identity: Identity,
    configuration: Map<String, Value>,
    source: IdentitySource,
    /// The identity that the agent's pack declares, if it differs.
    declared: Option<Identity>,
    /// The configuration that the agent's pack declares, if it differs.
    declared_configuration: Option<Map<String, Value>>,
}

/// The report of the agent's adapter, or otherwise of its pack.
fn report_of(
    context: &RunContext,
    declared: Option<&AdapterReport>,
    adapter: Option<Value>,
) -> Result<Report, Refusal> {
    let adapter = adapter
        .map(ReportedConfiguration::read)
        .transpose()
        .map_err(|fault| {
            unavailable(
                context,
                &format!("the identity report of the agent's adapter is invalid: {fault}"),
            )
        })?;
    match (adapter, declared) {
        (Some(adapter), declared) => Ok(Report {
            declared_configuration: declared.map(|it| it.configuration.clone()).filter(|it| {
                adapter
                    .configuration
                    .as_ref()
                    .is_some_and(|adapter| adapter != it)
            }),
            configuration: adapter
                .configuration
                .or_else(|| Some(declared?.configuration.clone()))
                .unwrap_or_default(),
            source: IdentitySource::Adapter,
            declared: declared
                .map(|it| it.identity.clone())
                .filter(|it| *it != adapter.identity),
            identity: adapter.identity,
        }),
        (None, Some(declared)) => Ok(Report {
            identity: declared.identity.clone(),
            configuration: declared.configuration.clone(),
            source: IdentitySource::Pack,
            declared: None,
            declared_configuration: None,
        }),
        (None, None) => Err(unavailable(
            context,
            "neither the agent's adapter nor its pack reports the agent's identity and configuration; add the agent to \
             `oasis/agents.json`",
        )),
    }
}

/// The checks before the agent is asked. The results go into `found`.
fn check_requirements(
    context: &RunContext,
    oasis: &OasisSpec,
    package: &Package,
    answer: &ConformanceAnswer,
    found: &mut OasisPreflight,
) -> Result<(), Refusal> {
    let preflight = preflight_of(oasis.request.tier, package, answer);
    found.requirements = preflight
        .requirements
        .iter()
        .map(RequirementAnswer::from)
        .collect();
    if let Some(refusal) = preflight.refusal() {
        return Err(refusal);
    }
    let is_understood = |it: &Scenario| context.agent.accepts(&it.agent_input());
    if !planning::scenarios(package, context.suite(), &oasis.request).all(is_understood) {
        return Err(unavailable(
            context,
            "the agent's task schema does not accept the input of a scenario: `prompt`, `mode`, `tools`, `scope`, and \
             `earlierTurns`",
        ));
    }
    Ok(())
}

fn unavailable(context: &RunContext, reason: &str) -> Refusal {
    Refusal {
        code: RefusalCode::AgentUnavailable,
        items: vec![RefusalItem {
            key: context.spec.agent_id.to_string(),
            reason: reason.to_owned(),
        }],
    }
}

fn identity(answer: &ConformanceAnswer) -> Option<ProviderIdentity> {
    let body = answer.body.as_ref()?;
    let text = |name: &str| body.get(name)?.as_str().map(str::to_owned);
    let versions = body.get("oasis_core_spec_versions")?.as_array()?;
    Some(ProviderIdentity {
        name: text("provider")?,
        version: text("provider_version")?,
        core_versions: versions
            .iter()
            .filter_map(|it| it.as_str().map(str::to_owned))
            .collect(),
    })
}

fn excluded(scenario: &PlannedScenario) -> Option<NewEvent> {
    (!scenario.is_applicable()).then(|| {
        let excluded = OasisExcluded {
            scenario_id: scenario.id().to_owned(),
            dimensions: scenario
                .failing
                .iter()
                .map(|it| it.dimension.clone())
                .collect(),
        };
        NewEvent::of_run(OasisEvent::Excluded(excluded).into())
    })
}

fn error_of(refusal: &Refusal) -> RunError {
    RunError::new(refusal.code.as_str(), refusal.to_string())
}
