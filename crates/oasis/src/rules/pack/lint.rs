//! Finds, without a provider, why an OASIS evaluation of a pack would be refused: checks the
//! profile files and the scenario suites, and for each agent its report, its plan and its task
//! schema.

use std::collections::BTreeMap;

use super::{FOLDER, PROFILE, lacks, profile_files};
use crate::rules::CORE_VERSION;
use crate::rules::adapter::{self, AdapterReport};
use crate::rules::format::{self, Package, Problem};
use crate::rules::planning;
use crate::rules::preflight;
use crate::rules::refusal::{Refusal, RefusalCode};
use crate::rules::request::{OasisRequest, Phases};
use crate::rules::suite::{self, is_oasis};
use crate::rules::version_range::VersionRange;
use touchstone_kit::json;
use touchstone_openwop::pack::AgentManifest;
use touchstone_openwop::schema::compile_untrusted;
use touchstone_openwop::suite::AgentEvalSuite;
use touchstone_packs::rules::build::Files;
use touchstone_packs::rules::build::lint::{Finding, Severity};
use touchstone_packs::rules::contents::is_suite_file;
use touchstone_packs::rules::format::ReadSuite;
use touchstone_packs::rules::{archive, manifest};

/// The highest tier: a suite is linted with all its scenarios.
const HIGHEST_TIER: u8 = 3;

/// All faults, without duplicates.
pub(super) fn findings(files: &Files, read_suite: ReadSuite) -> Vec<Finding> {
    if !files.contains_key(PROFILE) {
        return Vec::new();
    }
    let examined = format::examine(&profile_files(files));
    let mut linter = Linter {
        files,
        read_suite,
        found: Vec::new(),
    };
    for problem in examined.faults.iter().chain(&examined.malformed) {
        linter.problem(Severity::Error, problem);
    }
    for problem in &examined.unlisted {
        linter.problem(Severity::Warning, problem);
    }
    let reports = linter.reports();
    if let Some(package) = &examined.package {
        linter.core_dependency(package);
        linter.environments(package);
        linter.suites(package, &examined.malformed, reports.as_ref());
    }
    linter.found
}

/// Parsed reports by agent; `None` for a report that could not be parsed.
type Reports = BTreeMap<String, Option<AdapterReport>>;

struct Linter<'a> {
    files: &'a Files,
    read_suite: ReadSuite,
    found: Vec<Finding>,
}

impl Linter<'_> {
    fn add(&mut self, finding: Finding) {
        if !self.found.contains(&finding) {
            self.found.push(finding);
        }
    }

    /// Adds an error for the value at this path of a file.
    fn error(&mut self, file: &str, path: &[&str], reason: impl Into<String>) {
        let bytes = self.files.get(file).map(Vec::as_slice);
        let place = bytes.and_then(|bytes| format::place_in(bytes, path));
        self.add(Finding {
            line: place.map(|it| it.line),
            column: place.map(|it| it.column),
            ..Finding::new(Severity::Error, Some(file), reason)
        });
    }

    fn problem(&mut self, severity: Severity, problem: &Problem) {
        let file = format!("{}{}", FOLDER, problem.file);
        let reason = if problem.field.is_empty() {
            problem.message.clone()
        } else {
            format!("{}: {}", problem.field, problem.message)
        };
        self.add(Finding {
            line: Some(problem.line),
            column: Some(problem.column),
            ..Finding::new(severity, Some(&file), reason)
        });
    }

    /// Checks that the profile's core dependency includes the core version of this host.
    fn core_dependency(&mut self, package: &Package) {
        let Some(range) = &package.profile.oasis_core_dependency else {
            return;
        };
        // A range that cannot be parsed already has a finding.
        if VersionRange::parse(range).is_ok_and(|range| !range.contains(CORE_VERSION)) {
            let reason = format!(
                "metadata.oasis_core_dependency: excludes OASIS core {CORE_VERSION}, the version \
                that this host implements"
            );
            let path = ["metadata", "oasis_core_dependency"];
            self.error(PROFILE, &path, reason);
        }
    }

    /// Checks the environments of the scenarios against the provider contract. A provider that
    /// meets the contract may refuse another type, but only when the scenario starts.
    fn environments(&mut self, package: &Package) {
        let Some(contracted) = preflight::environment_type(&package.requirements) else {
            return;
        };
        let of_suite = package.scenarios.iter().chain(&package.reserved);
        let of_suite = of_suite.map(|scenario| (Severity::Error, scenario));
        let unlisted = package.unlisted.iter();
        let unlisted = unlisted.map(|scenario| (Severity::Warning, scenario));
        for (severity, scenario) in of_suite.chain(unlisted) {
            let declared = scenario.preconditions.environment.kind.as_str();
            // A missing type already has a finding.
            if declared.is_empty() || declared == contracted {
                continue;
            }
            let file = format!("{}{}", FOLDER, scenario.file);
            let path = ["preconditions", "environment", "type"];
            let bytes = self.files.get(&file);
            let place = bytes
                .and_then(|bytes| format::place_in_document(bytes, scenario.place, &path))
                .unwrap_or(scenario.place);
            // The id and the type are omitted: details of reserved scenarios are not disclosed.
            let reason = format!(
                "preconditions.environment.type: differs from `{contracted}`, the \
                `environment_type` that the provider contract requires; make both the same"
            );
            self.add(Finding {
                line: Some(place.line),
                column: Some(place.column),
                ..Finding::new(severity, Some(&file), reason)
            });
        }
    }

    /// The adapter reports of the agents; `None` if the file is missing or cannot be parsed.
    fn reports(&mut self) -> Option<Reports> {
        let bytes = self.files.get(adapter::FILE)?;
        let each = match adapter::read_each(bytes) {
            Ok(each) => each,
            Err(fault) => {
                self.error(adapter::FILE, &[], fault);
                return None;
            }
        };
        let mut reports = Reports::new();
        for (agent, report) in each {
            if let Err(fault) = &report {
                self.error(adapter::FILE, &[agent.as_str()], fault.as_str());
            }
            reports.insert(agent, report.ok());
        }
        Some(reports)
    }

    /// Checks the scenario suites and the agents that each suite is for.
    fn suites(&mut self, package: &Package, malformed: &[Problem], reports: Option<&Reports>) {
        let manifest = self.files.get(archive::MANIFEST).map(Vec::as_slice);
        let agents = manifest.and_then(|bytes| manifest::read(bytes).ok());
        let agents = agents.map(|manifest| manifest.agents).unwrap_or_default();
        let files = self.files;
        for (file, bytes) in files
            .iter()
            .filter(|(name, bytes)| is_suite_file(name, bytes))
        {
            let Ok(document) = (self.read_suite)(bytes) else {
                continue;
            };
            let suite = &document.suite;
            if !is_oasis(suite) {
                continue;
            }
            let lacks = |id: &str| lacks(package, id);
            for (index, fault) in suite::faults(suite, &lacks) {
                let position = index.to_string();
                let reason = format!("/tasks/{index}: {fault}");
                self.error(file, &["tasks", position.as_str()], reason);
            }
            for agent in meant(suite, file, &agents) {
                self.task_schema(package, suite, agent);
                self.agent(package, (file, suite), &agent.agent_id, malformed, reports);
            }
        }
    }

    /// Checks an agent's report and plans the suite for the agent.
    fn agent(
        &mut self,
        package: &Package,
        (file, suite): (&str, &AgentEvalSuite),
        agent: &str,
        malformed: &[Problem],
        reports: Option<&Reports>,
    ) {
        let report = reports.and_then(|reports| reports.get(agent));
        let Some(report) = report else {
            // A file that cannot be parsed already has a finding.
            if reports.is_some() || !self.files.contains_key(adapter::FILE) {
                let reason = format!(
                    "/{agent}: is missing; add the agent's identity and configuration, or `oasis \
                    run` refuses the agent unless the agent reports them when it answers"
                );
                self.error(adapter::FILE, &[], reason);
            }
            return;
        };
        let Some(report) = report else { return };
        let schema = &package.profile.agent_configuration_schema;
        let configuration = match schema.effective(&report.configuration) {
            Ok(configuration) => configuration,
            Err(refusal) => {
                for item in refusal.items {
                    let reason = format!("/{agent}/configuration/{}: {}", item.key, item.reason);
                    let path = [agent, "configuration", item.key.as_str()];
                    self.error(adapter::FILE, &path, reason);
                }
                return;
            }
        };
        let planned = planning::plan(package, suite, &whole(package), &configuration);
        let Err(Refusal { code, items }) = planned else {
            return;
        };
        if code == RefusalCode::NoApplicableSafetyScenarios {
            let reason = format!(
                "no safety scenario of the suite applies to {agent} as configured, so every \
                evaluation is refused"
            );
            self.error(file, &[], reason);
        }
        for item in items {
            let is_known = |it: &Problem| it.scenario.as_deref() == Some(item.key.as_str());
            let Some(scenario) = package.scenario(&item.key) else {
                continue;
            };
            if malformed.iter().any(is_known) {
                continue;
            }
            let path = format!("{}{}", FOLDER, scenario.file);
            self.add(Finding {
                line: Some(scenario.place.line),
                column: Some(scenario.place.column),
                ..Finding::new(
                    Severity::Error,
                    Some(&path),
                    format!("{}, for {agent}: {}", item.key, item.reason),
                )
            });
        }
    }

    /// Checks that the agent's task schema accepts the input that scenarios produce.
    fn task_schema(&mut self, package: &Package, suite: &AgentEvalSuite, agent: &AgentManifest) {
        let handoff = agent.handoff.as_ref();
        let Some(file) = handoff.and_then(|it| it.task_schema_ref.as_ref()) else {
            return;
        };
        let bytes = self.files.get(file);
        let schema = bytes
            .and_then(|bytes| json::parse_foreign(bytes).ok())
            .and_then(|value| compile_untrusted(&value).ok());
        let Some(schema) = schema else { return };
        let request = whole(package);
        let refused = planning::scenarios(package, suite, &request)
            .find_map(|it| Some((it.id(), schema.first_violation(&it.agent_input())?)));
        if let Some((scenario, violation)) = refused {
            let reason = format!(
                "refuses the input that {scenario} gives the agent, so `oasis run` refuses {}: \
                {violation}; accept `prompt`, `mode`, `tools`, `scope` and `earlierTurns`",
                agent.agent_id
            );
            self.error(file, &[], reason);
        }
    }
}

/// The agents that a suite is for: the one it names, else those that name it, else all agents of
/// the pack.
fn meant<'a>(
    suite: &AgentEvalSuite,
    file: &str,
    agents: &'a [AgentManifest],
) -> Vec<&'a AgentManifest> {
    let chosen = |is_meant: &dyn Fn(&AgentManifest) -> bool| -> Vec<&'a AgentManifest> {
        agents.iter().filter(|it| is_meant(it)).collect()
    };
    if let Some(target) = &suite.target_agent_id {
        return chosen(&|it| it.agent_id == target.as_str());
    }
    let naming = chosen(&|it| it.eval_suite_ref.as_deref() == Some(file));
    if naming.is_empty() {
        chosen(&|_| true)
    } else {
        naming
    }
}

/// A request for all scenarios of a suite.
fn whole(package: &Package) -> OasisRequest {
    OasisRequest {
        profile: package.profile.identifier.clone(),
        profile_version: package.profile.version.clone(),
        tier: HIGHEST_TIER,
        provider: String::new(),
        evaluator: String::new(),
        phases: Phases::Both,
        scenario_ids: None,
        tolerance_overrides: BTreeMap::new(),
        allow_incomplete: false,
        adversarial: None,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::rules::run::kind::OasisKind;
    use touchstone_runs::rules::eval::suite_rules;
    use touchstone_runs::rules::kind::Kinds;

    const CONTRACT: &str = "oasis/provider-conformance-requirements.yaml";
    const SCENARIOS: &str = "oasis/scenarios/safety/boundary-enforcement.yaml";
    const RESERVED: &str = "oasis/reserved/boundary-enforcement.yaml";

    macro_rules! front_desk {
        ($($path:literal),* $(,)?) => {
            [$((
                $path,
                include_str!(concat!("../../../../../packs/oasis-front-desk/", $path)),
            )),*]
        };
    }

    fn findings(files: &Files) -> Vec<Finding> {
        let read_suite = |bytes: &[u8]| suite_rules::read_suite(Kinds::new(&[&OasisKind]), bytes);
        super::findings(files, read_suite)
    }

    /// The profile of the Front Desk pack with the scenarios of one file.
    fn files() -> Files {
        front_desk![
            "oasis/profile.yaml",
            "oasis/behaviors.yaml",
            "oasis/stimuli.yaml",
            "oasis/provider-conformance-requirements.yaml",
            "oasis/scenarios/safety/boundary-enforcement.yaml",
        ]
        .into_iter()
        .map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()))
        .collect()
    }

    fn text_of(files: &Files, file: &str) -> String {
        String::from_utf8(files[file].clone()).unwrap()
    }

    fn replace(files: &mut Files, file: &str, old: &str, new: &str) {
        let text = text_of(files, file);
        assert!(text.contains(old), "{old:?} is not in {file}");
        files.insert(file.to_owned(), text.replace(old, new).into_bytes());
    }

    /// The line and column of a text in a file.
    fn place_of(files: &Files, file: &str, part: &str) -> (Option<u64>, Option<u64>) {
        let text = text_of(files, file);
        let (line, found) = text
            .lines()
            .enumerate()
            .find_map(|(index, line)| Some((index + 1, line.find(part)? + 1)))
            .unwrap();
        (u64::try_from(line).ok(), u64::try_from(found).ok())
    }

    #[test]
    fn a_sound_profile_has_no_findings() {
        assert_eq!(findings(&files()), []);
    }

    #[rstest]
    #[case("\">=1.0.0-rc1.4\"", None)]
    #[case("\">=1.0.0-rc1.6\"", Some("excludes OASIS core"))]
    #[case("\">=2.0.0\"", Some("excludes OASIS core"))]
    #[case("\">=0.9.0\"", Some("excludes OASIS core"))]
    #[case("\"latest\"", Some("is not a version range"))]
    fn the_core_dependency_must_include_the_core_of_this_host(
        #[case] range: &str,
        #[case] words: Option<&str>,
    ) {
        let mut files = files();
        let old = "oasis_core_dependency: \">=1.0.0-rc1.5\"";
        let new = format!("oasis_core_dependency: {range}");
        replace(&mut files, PROFILE, old, &new);
        replace(&mut files, CONTRACT, old, &new);
        let found = findings(&files);
        let Some(words) = words else {
            assert_eq!(found, []);
            return;
        };
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].severity, Severity::Error);
        assert_eq!(found[0].file.as_deref(), Some(PROFILE));
        assert!(found[0].reason.contains(words), "{found:#?}");
        let place = (found[0].line, found[0].column);
        assert_eq!(place, place_of(&files, PROFILE, range));
    }

    /// Changes the environment type of the second scenario of a file.
    fn stage_elsewhere(files: &mut Files, file: &str) {
        let old = "type: front-desk\n    state:\n      - {resource: charter/";
        let new = "type: back-office\n    state:\n      - {resource: charter/";
        replace(files, file, old, new);
    }

    fn assert_environment(files: &Files, file: &str, severity: Severity) {
        let found = findings(files);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].severity, severity);
        assert_eq!(found[0].file.as_deref(), Some(file));
        let part = "preconditions.environment.type: differs from `front-desk`";
        assert!(found[0].reason.contains(part), "{found:#?}");
        let place = (found[0].line, found[0].column);
        assert_eq!(place, place_of(files, file, "back-office"));
    }

    #[test]
    fn a_scenario_must_have_the_environment_type_of_the_contract() {
        let mut files = files();
        stage_elsewhere(&mut files, SCENARIOS);
        assert_environment(&files, SCENARIOS, Severity::Error);
    }

    #[test]
    fn every_scenario_with_another_environment_type_is_found() {
        let mut files = files();
        replace(
            &mut files,
            CONTRACT,
            "expected: front-desk",
            "expected: till",
        );
        let found = findings(&files);
        assert_eq!(found.len(), 2, "{found:#?}");
        assert!(
            found.iter().all(|it| it.reason.contains("`till`")),
            "{found:#?}"
        );
    }

    #[test]
    fn an_optional_environment_type_does_not_bind_scenarios() {
        let mut files = files();
        let old = "required: true, expected: front-desk";
        replace(
            &mut files,
            CONTRACT,
            old,
            "required: false, expected: front-desk",
        );
        stage_elsewhere(&mut files, SCENARIOS);
        assert_eq!(findings(&files), []);
    }

    #[test]
    fn the_environment_type_of_an_unlisted_scenario_is_a_warning() {
        let mut files = files();
        stage_elsewhere(&mut files, SCENARIOS);
        let suite = "id: desk.suite\nversion: 1.0.0\ndomain_profile: oasis-profile-front-desk\n\
            scenarios: [front.safety.be.other-wing-delete-01]\n";
        files.insert("oasis/suite.yaml".to_owned(), suite.as_bytes().to_vec());
        assert_environment(&files, SCENARIOS, Severity::Warning);
    }

    #[test]
    fn the_environment_type_of_a_reserved_scenario_is_found_without_its_id() {
        let mut files = files();
        let scenarios = files.remove(SCENARIOS).unwrap();
        files.insert(RESERVED.to_owned(), scenarios);
        stage_elsewhere(&mut files, RESERVED);
        assert_environment(&files, RESERVED, Severity::Error);
        let reason = &findings(&files)[0].reason;
        assert!(
            !reason.contains("charter-self-edit") && !reason.contains("back-office"),
            "{reason}"
        );
    }
}
