//! Options of an evaluation, and the body of `POST /v1/runs` built from them (OASIS.md section 14).

use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value, json};

use crate::cli::profiles::ProfileVersion;
use touchstone_host::cli::exit::Failure;
use touchstone_host::cli::files;

/// Maximum size of a red team file in bytes.
const MAX_RED_TEAM: u64 = 1_000_000;

#[derive(Debug, Args)]
pub struct Terms {
    /// Installed suite of the profile, by id and exact version
    #[arg(value_name = "SUITE@VERSION", value_parser = touchstone_runs::cli::eval::suite)]
    pub suite: String,
    /// Agent [default version: the highest installed one]
    #[arg(value_name = "AGENT[@VERSION]")]
    agent: String,
    /// Profile [default: the one in the suite's pack]
    #[arg(long, value_name = "ID[@VERSION]")]
    pub profile: Option<String>,
    /// Claimed complexity tier, 1 to 3
    #[arg(long, value_name = "TIER", value_parser = clap::value_parser!(u8).range(1..=3))]
    tier: u8,
    /// Provider, by its name in the host's configuration [default: the only one]
    #[arg(long, value_name = "NAME")]
    pub provider: Option<String>,
    /// Evaluator to name in the verdict [default: as configured in the host]
    #[arg(long, value_name = "WHO")]
    evaluator: Option<String>,
    /// Run only the safety phase; the evaluation is incomplete
    #[arg(long)]
    safety_only: bool,
    /// Run only this scenario; repeat for several. The evaluation is incomplete
    #[arg(long = "scenario", value_name = "ID")]
    scenarios: Vec<String>,
    /// Override the tolerance of a scenario, in percent; repeat for several. A pass by an override
    /// needs human review
    #[arg(long = "tolerance", value_name = "ID=PERCENT", value_parser = tolerance)]
    tolerances: Vec<(String, f64)>,
    /// Let the run pass even if the evaluation is incomplete
    #[arg(long)]
    allow_incomplete: bool,
    /// After a PASS, also run unpublished scenarios; does not change the verdict. Implied by
    /// --mutations and --red-team
    #[arg(long)]
    adversarial: bool,
    /// Also run this number of mutations of published scenarios
    #[arg(long, value_name = "N")]
    mutations: Option<u32>,
    /// Seed for drawing mutations; the same seed gives the same ones [default: 0]
    #[arg(long, value_name = "N", requires = "mutations")]
    seed: Option<u64>,
    /// Also run the probes of this red team file, YAML
    #[arg(long, value_name = "FILE")]
    red_team: Option<PathBuf>,
    /// Maximum number of scenarios in flight; a provider fault ends the evaluation after they have
    /// ended [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: Option<u32>,
}

fn tolerance(text: &str) -> Result<(String, f64), String> {
    let read = || {
        let (id, percent) = text.rsplit_once('=')?;
        let percent: f64 = percent.parse().ok()?;
        let sound = !id.is_empty() && (0.0..=100.0).contains(&percent);
        sound.then(|| (id.to_owned(), percent))
    };
    read().ok_or_else(|| "must be SCENARIO=PERCENT, 0 to 100, such as desk.safety.a=5".to_owned())
}

impl Terms {
    fn asks_for_probes(&self) -> bool {
        self.adversarial || self.mutations.is_some() || self.red_team.is_some()
    }

    /// The body of the request.
    ///
    /// # Errors
    /// The red team file cannot be read.
    pub fn body(&self, chosen: &ProfileVersion, provider: &str) -> Result<Value, Failure> {
        let mut oasis = Map::new();
        let mut set = |key: &str, value: Value| oasis.insert(key.to_owned(), value);
        set("profile", json!(chosen.profile));
        set("profileVersion", json!(chosen.version));
        set("tier", json!(self.tier));
        set("provider", json!(provider));
        if let Some(evaluator) = &self.evaluator {
            set("evaluator", json!(evaluator));
        }
        if self.safety_only {
            set("phases", json!("safety"));
        }
        if !self.scenarios.is_empty() {
            set("scenarioIds", json!(self.scenarios));
        }
        if !self.tolerances.is_empty() {
            let overrides: Map<String, Value> = self
                .tolerances
                .iter()
                .map(|(id, percent)| (id.clone(), json!(percent)))
                .collect();
            set("toleranceOverrides", Value::Object(overrides));
        }
        if self.allow_incomplete {
            set("allowIncomplete", json!(true));
        }
        let mut modes = vec!["golden"];
        if self.asks_for_probes() {
            modes.push("adversarial");
            set("adversarial", self.probes()?);
        }
        let mut configurable = Map::new();
        configurable.insert("evalModes".to_owned(), json!(modes));
        configurable.insert("oasis".to_owned(), Value::Object(oasis));
        if let Some(concurrency) = self.concurrency {
            configurable.insert("evalConcurrency".to_owned(), json!(concurrency));
        }
        let (agent, version) = match self.agent.split_once('@') {
            Some((agent, version)) => (agent, Some(version)),
            None => (self.agent.as_str(), None),
        };
        if let Some(version) = version {
            configurable.insert("agentVersion".to_owned(), json!(version));
        }
        Ok(json!({
            "mode": "eval",
            "evalSuiteRef": self.suite,
            "agentId": agent,
            "configurable": configurable,
        }))
    }

    fn probes(&self) -> Result<Value, Failure> {
        let mut probes = Map::new();
        if let Some(mutations) = self.mutations {
            probes.insert("mutations".to_owned(), json!(mutations));
        }
        if let Some(seed) = self.seed {
            probes.insert("seed".to_owned(), json!(seed));
        }
        if let Some(file) = &self.red_team {
            let text = String::from_utf8(files::read(file, MAX_RED_TEAM)?).map_err(|_| {
                Failure::bad_input("unreadable", format!("{} is not UTF-8", file.display()))
                    .or_try("use a YAML file")
            })?;
            probes.insert("redTeam".to_owned(), json!(text));
        }
        Ok(Value::Object(probes))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rstest::rstest;

    use super::*;
    use crate::rules::request::{OasisRequest, Phases};
    use crate::rules::run::kind::OasisKind;
    use crate::rules::run::plan::wanted;
    use touchstone_openwop::suite::EvalMode;
    use touchstone_runs::rules::kind::Kinds;
    use touchstone_runs::rules::run::request::{CreateRun, Request, parse};

    const KINDS: Kinds = Kinds::new(&[&OasisKind]);

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        terms: Terms,
    }

    fn request(more: &[&str]) -> CreateRun {
        let start = [
            "run",
            "vendor.acme.evals.desk@1.0.0",
            "vendor.acme.clerk.default@1.2.0",
            "--tier",
            "2",
        ];
        let terms = Line::try_parse_from(start.iter().chain(more))
            .unwrap()
            .terms;
        let chosen = ProfileVersion {
            profile: "oasis-profile-desk".to_owned(),
            version: "0.1.0-rc1".to_owned(),
        };
        match parse(KINDS, &terms.body(&chosen, "lab").unwrap()).unwrap() {
            Request::Eval(request) => *request,
            Request::Workflow(request) => panic!("{request:?} is for a workflow"),
        }
    }

    fn oasis(request: &CreateRun) -> OasisRequest {
        wanted(request).unwrap().unwrap()
    }

    #[test]
    fn a_request_with_the_required_options_only_is_valid() {
        let request = request(&["--evaluator", "Acme QA"]);
        assert_eq!(request.agent_version.as_deref(), Some("1.2.0"));
        assert_eq!(request.modes, Some(vec![EvalMode::Golden]));
        let oasis = oasis(&request);
        assert_eq!(
            (oasis.profile.as_str(), oasis.profile_version.as_str()),
            ("oasis-profile-desk", "0.1.0-rc1")
        );
        assert_eq!(
            (
                oasis.tier,
                oasis.provider.as_str(),
                oasis.evaluator.as_str()
            ),
            (2, "lab", "Acme QA")
        );
        assert_eq!(oasis.phases, Phases::Both);
        assert!(
            oasis.adversarial.is_none() && oasis.scenario_ids.is_none() && !oasis.allow_incomplete
        );
    }

    #[test]
    fn every_option_is_passed_to_the_request() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("team.yaml");
        std::fs::write(&file, "probes: []").unwrap();
        let request = request(&[
            "--safety-only",
            "--scenario",
            "a.b",
            "--scenario",
            "a.c",
            "--tolerance",
            "a.b=2.5",
            "--allow-incomplete",
            "--mutations",
            "3",
            "--seed",
            "7",
            "--red-team",
            file.to_str().unwrap(),
            "--concurrency",
            "4",
            "--evaluator",
            "QA",
        ]);
        assert_eq!(request.concurrency, Some(4));
        assert_eq!(
            request.modes,
            Some(vec![EvalMode::Golden, EvalMode::Adversarial])
        );
        let oasis = oasis(&request);
        assert_eq!(oasis.phases, Phases::Safety);
        assert_eq!(oasis.scenario_ids.unwrap(), ["a.b", "a.c"]);
        assert_eq!(oasis.tolerance_overrides["a.b"], 2.5);
        assert!(oasis.allow_incomplete);
        let probes = oasis.adversarial.unwrap();
        assert_eq!(
            (probes.seed, probes.mutations, probes.red_team.as_deref()),
            (7, 3, Some("probes: []"))
        );
    }

    #[test]
    fn reserved_scenarios_can_run_without_mutations_or_a_red_team() {
        let request = request(&["--adversarial", "--evaluator", "QA"]);
        let probes = oasis(&request).adversarial.unwrap();
        assert_eq!((probes.mutations, probes.red_team), (0, None));
    }

    #[rstest]
    #[case(&["--tier", "2", "--tolerance", "a"])]
    #[case(&["--tier", "2", "--tolerance", "a=101"])]
    #[case(&["--tier", "2", "--tolerance", "=1"])]
    #[case(&["--tier", "0"])]
    #[case(&["--tier", "4"])]
    #[case(&[])]
    fn invalid_options_are_rejected(#[case] more: &[&str]) {
        let start = [
            "run",
            "vendor.acme.evals.desk@1.0.0",
            "vendor.acme.clerk.default",
        ];
        assert!(Line::try_parse_from(start.iter().chain(more)).is_err());
    }
}
