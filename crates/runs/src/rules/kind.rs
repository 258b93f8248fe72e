//! Evaluation kinds: what another feature adds to eval runs.
//!
//! A kind is requested by the member of `configurable` that has its name. The member of this name
//! in the run's spec identifies its runs. A plain suite, whose tasks are scored one by one, has no
//! kind.

use std::collections::BTreeMap;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::eval::report::EvalReport;
use super::eval::scoring::Shortfall;
use super::run::fold::EvalFacts;
use super::run::record::EvalSpec;
use super::run::request::CreateRun;
use touchstone_kit::error::Problem;
use touchstone_kit::ids::{RunId, TaskId};
use touchstone_openwop::suite::{AgentEvalSuite, EvalMode, Task, Thresholds};

/// The rules of a kind.
pub trait EvalKind: Send + Sync {
    /// The name of its member in `configurable`, the spec, the snapshot and the report.
    fn name(&self) -> &'static str;

    /// Checks its member of `configurable`.
    ///
    /// # Errors
    /// `validation_error` naming the field.
    fn check(&self, members: &Value) -> Result<(), Problem>;

    /// Whether the kind itself defines the expected result of a task, which then needs no `match`.
    fn is_expectation_of(&self, task: &Task) -> bool;

    /// Why its runs do not allow something that runs of a plain suite allow.
    fn refusal(&self, action: Action) -> &'static str;

    /// The result of a run, computed from its recorded facts.
    fn outcome(&self, spec: &EvalSpec, thresholds: &Thresholds, facts: &EvalFacts) -> KindOutcome;

    /// Its member of a run's snapshot.
    fn snapshot(&self, run: &RunId, facts: &EvalFacts) -> Option<Value>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Retry,
    Branch,
    Delete,
}

/// The result of a run, as its kind computes it.
#[derive(Clone, Debug)]
pub struct KindOutcome {
    /// 0.0..=1.0.
    pub aggregate_score: f64,
    /// Why the run does not pass, in addition to unreadable events and the suite's limits on cost
    /// and latency.
    pub shortfalls: Vec<Shortfall>,
    /// Whether there is a verdict about the agent.
    pub is_judged: bool,
    /// Number of the kind's events that cannot be read.
    pub unreadable: u64,
    /// Its member of the report.
    pub report: Extensions,
}

/// A planned run of a kind. The kind's executor builds the inputs of the agent and judges its
/// answers, so the run has no judge, and the suite's inputs need not satisfy the agent's schema.
#[derive(Clone, Debug)]
pub struct KindPlan {
    /// The kind's member of the spec.
    pub spec: Extensions,
    /// The tasks to run, in suite order.
    pub tasks: Vec<TaskId>,
    /// The modes of the run, from those that are possible.
    pub modes: Vec<EvalMode>,
    /// Default number of tasks in flight.
    pub concurrency: u32,
}

/// Plans the kind of a requested run over a suite in these modes; `None` for a plain suite.
pub type PlanKind<'a> = dyn Fn(&CreateRun, &AgentEvalSuite, &[EvalMode]) -> Result<Option<KindPlan>, Problem>
    + Send
    + Sync
    + 'a;

/// The kinds of a host.
#[derive(Clone, Copy, Default)]
pub struct Kinds(&'static [&'static dyn EvalKind]);

impl Kinds {
    /// Plain suites only.
    pub const NONE: Self = Self(&[]);

    pub const fn new(kinds: &'static [&'static dyn EvalKind]) -> Self {
        Self(kinds)
    }

    pub fn iter(self) -> impl Iterator<Item = &'static dyn EvalKind> {
        self.0.iter().copied()
    }

    /// The kind of an eval run; `None` for a plain suite.
    pub fn of(self, spec: &EvalSpec) -> Option<&'static dyn EvalKind> {
        self.iter().find(|kind| spec.extensions.has(kind.name()))
    }

    /// Whether a report is about a run of one of these kinds.
    pub fn are_in<T, S>(self, report: &EvalReport<T, S>) -> bool {
        self.iter().any(|kind| report.extensions.has(kind.name()))
    }
}

/// Members that kinds add to a document, by name.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Extensions(BTreeMap<String, Box<RawValue>>);

impl Extensions {
    /// One member.
    ///
    /// # Errors
    /// The member contains a map whose keys are not strings.
    pub fn of(name: &str, member: &impl Serialize) -> serde_json::Result<Self> {
        let member = to_raw_value(member)?;
        Ok(Self(BTreeMap::from([(name.to_owned(), member)])))
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// A member; `None` if it is absent or has another form.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_str(self.0.get(name)?.get()).ok()
    }

    /// The profile that a kind's runs are found by: the text `profile` of a kind's member.
    pub fn profile(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct ByProfile {
            profile: String,
        }
        let found = self.0.keys().find_map(|name| self.get::<ByProfile>(name));
        found.map(|it| it.profile)
    }

    fn values(&self) -> BTreeMap<&str, Option<Value>> {
        let members = self.0.keys();
        members
            .map(|name| (name.as_str(), self.get(name)))
            .collect()
    }
}

/// Compares the values, not their texts: reading a record sorts the members of objects.
impl PartialEq for Extensions {
    fn eq(&self, other: &Self) -> bool {
        self.values() == other.values()
    }
}

/// Every member that the document itself does not define.
impl<'de> Deserialize<'de> for Extensions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A flattened member cannot be read as `RawValue`.
        let members = BTreeMap::<String, Value>::deserialize(deserializer)?;
        let members = members
            .into_iter()
            .filter(|(_, member)| !member.is_null())
            .map(|(name, member)| Ok((name, to_raw_value(&member)?)));
        let members: serde_json::Result<_> = members.collect();
        members.map(Self).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stored() -> String {
        let spec = r#"{"suiteId":"s","suiteVersion":"1.0.0","suiteDigest":"sha256-s","suiteSigned":true,
            "suiteTaskCount":1,"agentId":"vendor.acme.clerk.default","agentVersion":"1.2.0","packIntegrity":"sha256-a",
            "modelClass":"general","model":{"provider":"openai","model":"m"},"modes":["golden"],"tasks":["a"],
            "concurrency":1,"drill":{"site":"north","alarms":2},"execution":{"replayedFrom":"sha256-c"}}"#;
        spec.lines().map(str::trim_start).collect()
    }

    #[test]
    fn the_extension_member_of_a_kind_keeps_its_place_and_form() {
        let plain = stored().replace(r#""drill":{"site":"north","alarms":2},"#, "");
        let mut spec: EvalSpec = serde_json::from_str(&plain).unwrap();
        assert!(!spec.extensions.has("drill"));
        assert_eq!(serde_json::to_string(&spec).unwrap(), plain);

        #[derive(Serialize)]
        struct Drill {
            site: &'static str,
            alarms: u8,
        }
        let drill = Drill {
            site: "north",
            alarms: 2,
        };
        spec.extensions = Extensions::of("drill", &drill).unwrap();
        assert_eq!(serde_json::to_string(&spec).unwrap(), stored());
    }

    #[test]
    fn the_extension_member_of_a_kind_is_read_back() {
        let spec: EvalSpec = serde_json::from_str(&stored()).unwrap();
        let drill = json!({"site": "north", "alarms": 2});
        assert_eq!(spec.extensions.get("drill"), Some(drill.clone()));
        assert_eq!(spec.extensions, Extensions::of("drill", &drill).unwrap());
        assert_eq!(spec.extensions.get::<String>("drill"), None);
        let again: EvalSpec = serde_json::from_value(json!(spec)).unwrap();
        assert_eq!(again, spec);
    }

    #[test]
    fn a_null_extension_member_counts_as_absent() {
        let null = stored().replace(r#"{"site":"north","alarms":2}"#, "null");
        let spec: EvalSpec = serde_json::from_str(&null).unwrap();
        assert!(!spec.extensions.has("drill"));
    }
}
