//! The library of stress tests (AAAF stress tests): one suite per dimension of capability, with the
//! profile of its tasks.
//!
//! Suites and profiles are files of `packs/aaaf-stress-tests`. This module fills in what depends on
//! the agent: its primary domain, and one task for each of its tools.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::rules::agent;
use crate::rules::projection::Profile;
use crate::rules::scoring::dimension::Dimension;
use crate::rules::stress_test::own_task::{OwnTask, suite_of};
use touchstone_agents::rules::reached_by::ReachedBy;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum Test {
    DomainBreadth,
    ComplexityLadder,
    ToolChallenge,
    AutonomyLadder,
    DelegationMixed,
    Orchestration,
    LearningSeries,
    /// The organization's own tasks for a dimension of capability.
    Own(Dimension),
}

impl From<Test> for &'static str {
    fn from(test: Test) -> Self {
        test.as_str()
    }
}

impl TryFrom<String> for Test {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let own = Dimension::CAPABILITY.map(Self::Own);
        let mut all = Self::ALL.into_iter().chain(own);
        let found = all.find(|test| test.as_str() == name);
        found.ok_or_else(|| format!("`{name}` is not a stress test"))
    }
}

/// The files of a suite and of its profile.
struct Files {
    suite: &'static str,
    profile: &'static str,
}

macro_rules! files {
    ($name:literal) => {
        Files {
            suite: include_str!(concat!(
                "../../../../../packs/aaaf-stress-tests/evals/",
                $name,
                ".json"
            )),
            profile: include_str!(concat!(
                "../../../../../packs/aaaf-stress-tests/profiles/",
                $name,
                ".json"
            )),
        }
    };
}

impl Test {
    /// The tests of the library.
    pub const ALL: [Self; 7] = [
        Self::DomainBreadth,
        Self::ComplexityLadder,
        Self::ToolChallenge,
        Self::AutonomyLadder,
        Self::DelegationMixed,
        Self::Orchestration,
        Self::LearningSeries,
    ];

    /// Its name: the last part of its suite's id.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DomainBreadth => "domain-breadth",
            Self::ComplexityLadder => "complexity-ladder",
            Self::ToolChallenge => "tool-challenge",
            Self::AutonomyLadder => "autonomy-ladder",
            Self::DelegationMixed => "delegation-mixed",
            Self::Orchestration => "orchestration",
            Self::LearningSeries => "learning-series",
            Self::Own(dimension) => match dimension {
                Dimension::DomainBreadth => "own-domain-breadth",
                Dimension::ComplexityCeiling => "own-complexity-ceiling",
                Dimension::ToolProficiency => "own-tool-proficiency",
                Dimension::AutonomyLevel => "own-autonomy-level",
                Dimension::LearningRate => "own-learning-rate",
                Dimension::DelegationCapability => "own-delegation-capability",
                Dimension::OrchestrationSkills => "own-orchestration-skills",
                // No stress test covers performance alone.
                Dimension::TaskCompletionRate
                | Dimension::Accuracy
                | Dimension::Speed
                | Dimension::Consistency
                | Dimension::ReviewCompliance => "own",
            },
        }
    }

    pub const fn dimension(self) -> Dimension {
        match self {
            Self::DomainBreadth => Dimension::DomainBreadth,
            Self::ComplexityLadder => Dimension::ComplexityCeiling,
            Self::ToolChallenge => Dimension::ToolProficiency,
            Self::AutonomyLadder => Dimension::AutonomyLevel,
            Self::DelegationMixed => Dimension::DelegationCapability,
            Self::Orchestration => Dimension::OrchestrationSkills,
            Self::LearningSeries => Dimension::LearningRate,
            Self::Own(dimension) => dimension,
        }
    }

    /// Whether its tasks run one after the other, because their order matters.
    pub const fn is_ordered(self) -> bool {
        matches!(
            self,
            Self::LearningSeries | Self::Own(Dimension::LearningRate)
        )
    }

    const fn files(self) -> Option<Files> {
        Some(match self {
            Self::DomainBreadth => files!("domain-breadth"),
            Self::ComplexityLadder => files!("complexity-ladder"),
            Self::AutonomyLadder => files!("autonomy-ladder"),
            Self::DelegationMixed => files!("delegation-mixed"),
            Self::Orchestration => files!("orchestration"),
            Self::LearningSeries => files!("learning-series"),
            // Built from the agent's tools or from the organization's tasks.
            Self::ToolChallenge | Self::Own(_) => return None,
        })
    }

    /// Whether its tasks have scripted workers, which the agent calls like tools.
    pub const fn has_workers(self) -> bool {
        matches!(
            self.dimension(),
            Dimension::DelegationCapability | Dimension::OrchestrationSkills
        )
    }

    /// Whether its tasks need an agent that works through this host's tools.
    pub const fn needs_tools(self) -> bool {
        self.has_workers() || matches!(self.dimension(), Dimension::ToolProficiency)
    }
}

/// The agent that a stress test is built for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The OpenWOP agent with its version pinned, or the stand-in of an agent outside this host.
    pub agent: agent::OpenwopAgent,
    /// How the agent is reached, if it runs outside this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached_by: Option<ReachedBy>,
    /// The agent's primary domain, which is the first of its domains.
    pub domain: Option<String>,
    /// Tools of the agent that its runs may call.
    pub tools: Vec<String>,
    /// The organization's domains; tasks of other domains do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taxonomy: Option<Vec<String>>,
    /// Tasks that the organization adds to the library.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own: Vec<OwnTask>,
}

impl Subject {
    fn own_tasks(&self, dimension: Dimension) -> Vec<&OwnTask> {
        let tasks = self.own.iter();
        tasks.filter(|it| it.dimension == dimension).collect()
    }
}

/// A test that is not run, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedTest {
    pub test: Test,
    pub dimension: Dimension,
    pub reason: String,
}

/// The tests to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub subject: Subject,
    pub tests: Vec<Test>,
    /// All other tests, each with a reason.
    pub left_out: Vec<SkippedTest>,
}

/// A test that is ready to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    /// The suite document.
    pub suite: Value,
    pub profile: Profile,
}

/// The tests that this host can run for an agent, limited to one dimension if one is named.
pub fn plan(subject: Subject, only: Option<Dimension>) -> Plan {
    let (mut tests, mut left_out) = (Vec::new(), Vec::new());
    let wanted = |test: &Test| only.is_none_or(|dimension| test.dimension() == dimension);
    let own = Dimension::CAPABILITY.into_iter();
    let own = own.filter(|dimension| !subject.own_tasks(*dimension).is_empty());
    let own: Vec<Test> = own.map(Test::Own).collect();
    for test in Test::ALL.into_iter().chain(own).filter(wanted) {
        match skip_reason(test, &subject) {
            None => tests.push(test),
            Some(reason) => left_out.push(SkippedTest {
                test,
                dimension: test.dimension(),
                reason: reason.to_owned(),
            }),
        }
    }
    Plan {
        subject,
        tests,
        left_out,
    }
}

fn skip_reason(test: Test, subject: &Subject) -> Option<&'static str> {
    let no_domain = || {
        subject.domain.is_none().then_some(
            "the agent has no domains; enroll it with `domains`, the primary one \
            first",
        )
    };
    match test {
        Test::ToolChallenge if subject.tools.is_empty() => {
            Some("the agent has no tools that its runs may call; enroll it with `tools`")
        }
        Test::ComplexityLadder
        | Test::AutonomyLadder
        | Test::LearningSeries
        | Test::ToolChallenge => no_domain(),
        Test::Own(dimension)
            if subject
                .own_tasks(dimension)
                .iter()
                .any(|it| it.domain.is_none()) =>
        {
            no_domain()
        }
        Test::DomainBreadth
            if prepare(test, subject).is_none_or(|it| it.profile.tasks.is_empty()) =>
        {
            Some("none of its domains is in the organization's taxonomy")
        }
        _ => None,
    }
}

#[expect(
    clippy::expect_used,
    reason = "the library is compiled into the binary, and a test reads every file"
)]
fn embedded(file: &str) -> Value {
    serde_json::from_str(file).expect("a file of the library is JSON")
}

/// The suite and the profile of a test for an agent; `None` if the tasks that the organization
/// wrote for it have no valid profile.
pub fn prepare(test: Test, subject: &Subject) -> Option<Prepared> {
    let (mut suite, profile) = match (test, test.files()) {
        (Test::Own(dimension), _) => suite_of(test.as_str(), &subject.own_tasks(dimension)),
        (_, Some(files)) => (embedded(files.suite), embedded(files.profile)),
        (_, None) => tool_challenge(&subject.tools),
    };
    let mut profile = Profile::read(&profile).ok()?;
    if let (Test::DomainBreadth, Some(taxonomy)) = (test, &subject.taxonomy) {
        keep_taxonomy_domains(&mut suite, &mut profile, taxonomy);
    }
    if profile.defaults.domain.is_none() {
        profile.defaults.domain.clone_from(&subject.domain);
    }
    Some(Prepared { suite, profile })
}

/// Removes tasks of domains outside the taxonomy. Unless all tasks remain, the result is another
/// version of the suite.
fn keep_taxonomy_domains(suite: &mut Value, profile: &mut Profile, taxonomy: &[String]) {
    let all = profile.tasks.len();
    let is_known =
        |domain: &Option<String>| domain.as_ref().is_some_and(|it| taxonomy.contains(it));
    profile.tasks.retain(|_, task| is_known(&task.domain));
    if profile.tasks.len() == all {
        return;
    }
    let left: Vec<&str> = profile.tasks.keys().map(String::as_str).collect();
    let version = version_of(&left);
    let is_left = |task: &Value| {
        let id = task.get("taskId").and_then(Value::as_str);
        id.is_some_and(|id| left.contains(&id))
    };
    if let Some(tasks) = suite.get_mut("tasks").and_then(Value::as_array_mut) {
        tasks.retain(is_left);
    }
    if let Some(members) = suite.as_object_mut() {
        members.insert("version".to_owned(), json!(version));
    }
    profile.suite_version = version;
}

/// A suite version derived from a list: equal lists give equal versions, different lists different
/// ones.
pub(super) fn version_of<T: AsRef<str>>(list: &[T]) -> String {
    let list: Vec<&str> = list.iter().map(AsRef::as_ref).collect();
    let digest = Sha256::digest(list.join("\n").as_bytes());
    format!("1.0.{}", number(digest.iter().take(5)))
}

fn number<'a>(bytes: impl Iterator<Item = &'a u8>) -> u64 {
    bytes.fold(0, |sum, it| sum << 8 | u64::from(*it))
}

/// One task per tool; only the tool's answer contains the receipt to report.
fn tool_challenge(tools: &[String]) -> (Value, Value) {
    let suite_id = format!("core.aaaf.evals.{}", Test::ToolChallenge.as_str());
    let version = version_of(tools);
    let tasks: Vec<Value> = tools
        .iter()
        .enumerate()
        .map(|(n, tool)| {
            let token = Sha256::digest(format!("{n}:{tool}").as_bytes());
            let receipt = number(token.iter().take(4));
            json!({
                "taskId": format!("tool-{}", n + 1),
                "input": {"task": format!("Call the tool {tool} once, with arguments that fit it, and do not call it again. Its answer holds a receipt; end with the word RECEIPT, an equals sign and that receipt."), "tool": tool},
                "fixtures": {"toolResponses": [{"tool": tool, "response": {"status": "done", "receipt": format!("{receipt:010}")}}]},
                "expected": {"kind": "golden", "match": {"strategy": "contains", "value": format!("RECEIPT={receipt:010}")}},
            })
        })
        .collect();
    let suite =
        json!({"suiteId": suite_id, "version": version, "modes": ["golden"], "tasks": tasks});
    let profile = json!({"suiteId": suite_id, "suiteVersion": version,
        "defaults": {"complexityLevel": 2, "probe": Test::ToolChallenge.as_str()}});
    (suite, profile)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use touchstone_agents::rules::workers;
    use touchstone_openwop::events::InvocationOutcome;
    use touchstone_runs::rules::eval::suite_rules::check_suite;
    use touchstone_runs::rules::kind::Kinds;

    fn subject() -> Subject {
        Subject {
            agent: "acme.agents.clerk@1.0.0".parse().unwrap(),
            reached_by: None,
            domain: Some("legal".to_owned()),
            tools: vec!["desk:look-up".to_owned(), "desk:file".to_owned()],
            taxonomy: None,
            own: Vec::new(),
        }
    }

    #[rstest]
    #[case(Test::DomainBreadth, 12)]
    #[case(Test::ComplexityLadder, 5)]
    #[case(Test::ToolChallenge, 2)]
    #[case(Test::AutonomyLadder, 4)]
    #[case(Test::DelegationMixed, 20)]
    #[case(Test::Orchestration, 3)]
    #[case(Test::LearningSeries, 15)]
    fn every_stress_test_is_a_valid_suite_with_a_profile_of_each_task(
        #[case] test: Test,
        #[case] tasks: usize,
    ) {
        let Prepared { suite, profile } = prepare(test, &subject()).unwrap();
        let suite = check_suite(Kinds::NONE, &suite).unwrap();
        assert_eq!(suite.tasks.len(), tasks);
        assert_eq!(
            profile.suite(),
            format!("{}@{}", suite.suite_id, suite.version)
        );
        assert_eq!(suite.suite_id, format!("core.aaaf.evals.{}", test.as_str()));
        for task in &suite.tasks {
            let it = profile.of_task(task.task_id.as_str());
            assert!(
                it.domain.is_some() && it.complexity_level.is_some(),
                "{task:?}"
            );
            assert_eq!(it.probe.as_deref(), Some(test.as_str()));
            let answer = task
                .expected
                .matching
                .as_ref()
                .unwrap()
                .value
                .as_str()
                .unwrap();
            assert!(
                !task.input.to_string().contains(answer),
                "{answer} is in the input"
            );
        }
        let known = |name: &String| suite.tasks.iter().any(|task| task.task_id.as_str() == name);
        assert!(profile.tasks.keys().all(known));
    }

    #[test]
    fn ladders_use_the_primary_domain_and_breadth_uses_every_domain() {
        let ladder = prepare(Test::ComplexityLadder, &subject()).unwrap().profile;
        for level in 1..=5 {
            let task = ladder.of_task(&format!("level-{level}"));
            assert_eq!(task.domain.as_deref(), Some("legal"));
            assert_eq!(task.complexity_level.unwrap().get(), level);
        }
        let breadth = prepare(Test::DomainBreadth, &subject()).unwrap().profile;
        let domains: std::collections::BTreeSet<_> =
            breadth.tasks.values().map(|it| it.domain.clone()).collect();
        assert_eq!(domains.len(), 12);
    }

    #[test]
    fn breadth_tasks_use_domains_of_the_taxonomy() {
        let within = |taxonomy: &[&str]| {
            let taxonomy = taxonomy.iter().map(|it| (*it).to_owned()).collect();
            let taxonomy = Some(taxonomy);
            Subject {
                taxonomy,
                ..subject()
            }
        };
        let Prepared { suite, profile } =
            prepare(Test::DomainBreadth, &within(&["legal", "knitting"])).unwrap();
        let checked = check_suite(Kinds::NONE, &suite).unwrap();
        assert_eq!((checked.tasks.len(), profile.tasks.len()), (1, 1));
        assert_eq!(
            profile.suite(),
            format!("{}@{}", checked.suite_id, checked.version)
        );
        assert_ne!(checked.version.to_string(), "1.0.0");
        let none = plan(within(&["knitting"]), Some(Dimension::DomainBreadth));
        assert_eq!(none.tests, []);
        assert!(none.left_out[0].reason.contains("taxonomy"));
    }

    #[test]
    fn tasks_that_are_not_run_are_reported() {
        let full = plan(subject(), None);
        assert_eq!((full.tests, full.left_out), (Test::ALL.to_vec(), vec![]));
        let bare = Subject {
            domain: None,
            tools: Vec::new(),
            ..subject()
        };
        let bare = plan(bare, None);
        assert_eq!(
            bare.tests,
            [
                Test::DomainBreadth,
                Test::DelegationMixed,
                Test::Orchestration
            ]
        );
        let out: Vec<Test> = bare.left_out.iter().map(|it| it.test).collect();
        assert_eq!(
            out,
            [
                Test::ComplexityLadder,
                Test::ToolChallenge,
                Test::AutonomyLadder,
                Test::LearningSeries
            ]
        );
        let one = plan(subject(), Some(Dimension::ToolProficiency));
        assert_eq!(
            (one.tests, one.left_out),
            (vec![Test::ToolChallenge], vec![])
        );
    }

    #[test]
    fn every_worker_that_a_profile_names_is_scripted_and_fails_where_it_says_so() {
        for test in Test::ALL.into_iter().filter(|test| test.has_workers()) {
            let Prepared { suite, profile } = prepare(test, &subject()).unwrap();
            for task in check_suite(Kinds::NONE, &suite).unwrap().tasks {
                let fixtures = task.fixtures.unwrap();
                let answers = |id: &str| -> Vec<InvocationOutcome> {
                    let own = fixtures.tool_responses.iter();
                    let own = own.filter(|it| workers::worker(&it.tool).unwrap().1 == id);
                    own.map(|it| workers::outcome_of(&it.response)).collect()
                };
                let it = profile.of_task(task.task_id.as_str());
                let parts = it.delegation.unwrap_or_default();
                for delegate in parts
                    .into_iter()
                    .flat_map(|it| it.optimal_delegates)
                    .flatten()
                {
                    assert_eq!(answers(&delegate), [InvocationOutcome::Completed]);
                }
                let Some(led) = it.orchestration else {
                    continue;
                };
                for worker in led.dependency_graph.keys() {
                    let expected = match led.injected_failures.contains(worker) {
                        true => vec![InvocationOutcome::Failed, InvocationOutcome::Completed],
                        false => vec![InvocationOutcome::Completed],
                    };
                    assert_eq!(answers(worker), expected, "{worker}");
                }
            }
        }
    }

    #[test]
    fn stress_tasks_of_an_organization_form_separate_tests() {
        let definition = json!({"input": "Name the clause."});
        let task = json!({"dimension": "complexity_ceiling", "task_definition": definition,
            "expected_outcome": {"strategy": "contains", "value": "CLAUSE=9"}});
        let task = OwnTask::parse("6f0c2f4e-6d3b-4c51-9a52-0d6c1e7c8a11", &task, &[]).unwrap();
        let own = Subject {
            own: vec![task],
            ..subject()
        };
        let test = Test::Own(Dimension::ComplexityCeiling);
        let one = plan(own.clone(), Some(Dimension::ComplexityCeiling));
        assert_eq!(one.tests, [Test::ComplexityLadder, test]);
        let kept: Plan = serde_json::from_value(json!(one)).unwrap();
        assert_eq!(kept, one);
        let prepared = prepare(test, &own).unwrap();
        assert_eq!(
            check_suite(Kinds::NONE, &prepared.suite)
                .unwrap()
                .tasks
                .len(),
            1
        );
        assert_eq!(prepared.profile.defaults.domain.as_deref(), Some("legal"));
        let homeless = Subject {
            domain: None,
            ..own
        };
        let left_out = plan(homeless, None).left_out;
        assert!(left_out.iter().any(|it| it.test == test));
    }

    #[test]
    fn the_suite_version_depends_on_the_tools() {
        let version = |tools: &[&str]| {
            let tools = tools.iter().map(|it| (*it).to_owned()).collect();
            let of = Subject { tools, ..subject() };
            prepare(Test::ToolChallenge, &of)
                .unwrap()
                .profile
                .suite_version
        };
        assert_eq!(version(&["a:b"]), version(&["a:b"]));
        assert_ne!(version(&["a:b"]), version(&["a:c"]));
    }
}
