//! The gate that a run is meant for, on the page of the run.

use crate::api::ConsoleApi;
use crate::page::answer::segment;
use crate::page::visit::Visit;
use touchstone_deployments::examination::ExaminedCondition;
use touchstone_host::access::Scope;
use touchstone_host::render::words::plain;
use touchstone_kit::error::Problem;
use touchstone_runs::rules::eval::gate::Candidate;
use touchstone_runs::rules::eval::report::RunTotals;

/// The strictest gate that requires a run of this suite.
pub struct SuiteGate {
    pub title: String,
    pub conditions: Vec<GateCondition>,
    pub unmet: usize,
    /// The page that promotes the version with this run.
    pub promote: String,
}

pub struct GateCondition {
    pub is_met: bool,
    pub name: String,
    /// Why it is not met.
    pub message: String,
}

impl SuiteGate {
    /// `None` without such a gate, and for people who may not read gates.
    ///
    /// # Errors
    /// The store failed.
    pub async fn of(
        api: &ConsoleApi,
        visit: &Visit,
        report: &RunTotals,
    ) -> Result<Option<Self>, Problem> {
        if !visit.may(Scope::ManifestRead) {
            return Ok(None);
        }
        let agent = &report.agent;
        let of = Candidate {
            agent_id: agent.agent_id.as_str(),
            version: &agent.version,
            pack_integrity: &agent.pack_integrity,
        };
        let gates = &api.deployments.gates;
        let suite = &report.suite.suite_id;
        let found = gates.strictest_of_suite(&visit.caller, of, suite, &report.run_id);
        let Some(check) = found.await? else {
            return Ok(None);
        };
        let channel = check.channel.as_deref();
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("version", &agent.version);
        query.append_pair("channel", channel.unwrap_or_default());
        query.append_pair("run", report.run_id.as_str());
        let condition = |it: &ExaminedCondition| GateCondition {
            is_met: it.met,
            name: plain(&it.requirement),
            message: plain(&it.message),
        };
        Ok(Some(Self {
            title: channel.map_or_else(
                || "Gate of every channel".to_owned(),
                |channel| format!("Gate of channel {}", plain(channel)),
            ),
            conditions: check.conditions.iter().map(condition).collect(),
            unmet: check.conditions.iter().filter(|it| !it.met).count(),
            promote: format!(
                "/console/deployments/{}/promote?{}",
                segment(agent.agent_id.as_str()),
                query.finish()
            ),
        }))
    }
}
