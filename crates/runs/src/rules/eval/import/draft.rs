//! A suite under construction, with a list of everything that could not be converted.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Fault;
use super::pack::AgentDraft;
use super::promptfoo::ProviderDraft;
use super::scoring::{self, Expectation};
use crate::rules::eval::scoring_document::limits::MAX_METRICS;
use crate::rules::eval::suite_rules::check_suite;
use crate::rules::kind::Kinds;
use touchstone_openwop::suite::{MatchStrategy, SAFETY_TOOL, SuiteFault};

const MAX_ID_CHARS: usize = 64;
/// Maximum number of tasks of a suite; a few lists of values can expand to very many.
const MAX_TASKS: usize = 100_000;
/// Maximum size of all tasks in bytes: a long text in a list of values is repeated in each task.
pub const MAX_OCTETS: usize = 256 << 20;
/// Maximum number of characters shown of a foreign name.
const MAX_NAME_CHARS: usize = 64;

/// The identity of the new suite.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    pub suite_id: String,
    pub version: String,
    /// The agent it is written for.
    pub target_agent_id: Option<String>,
    pub pass_score: Option<f64>,
}

/// Something that could not be converted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Loss {
    /// The loss and its consequence.
    pub what: String,
    /// Number of occurrences.
    pub count: usize,
    /// The first occurrence.
    pub first: String,
    /// Places that lost a task: every place that produced no task, or fewer tasks than it contains.
    /// Empty if only details of tasks were lost.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// The result of a conversion.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The valid suite.
    pub suite: Value,
    /// The scoring document, if the suite cannot hold every expectation.
    pub scoring: Option<Value>,
    /// The prompts of the document, for the agents of a pack.
    pub agents: Vec<AgentDraft>,
    /// The providers of the document.
    pub providers: Vec<ProviderDraft>,
    /// The place in the document that each task comes from.
    pub places: Vec<String>,
    /// Tools that the tasks have recorded results of.
    pub tools: Vec<String>,
    /// Everything that is in neither.
    pub losses: Vec<Loss>,
}

impl Imported {
    /// A document that is a suite already.
    pub fn of_suite(suite: Value) -> Self {
        Self {
            tools: tools(&suite),
            suite,
            scoring: None,
            agents: Vec::new(),
            providers: Vec::new(),
            places: Vec::new(),
            losses: Vec::new(),
        }
    }
}

/// A task without its id.
#[derive(Debug)]
pub struct NewTask<'a> {
    pub place: &'a str,
    /// Its name in the document, if it has one.
    pub name: Option<&'a Value>,
    pub input: Value,
    pub expectation: Expectation,
    /// Recorded tool results and memory.
    pub fixtures: Option<Value>,
    /// Whether its name is the id of a task in a suite, and stays as it is.
    pub keeps_id: bool,
}

/// The suite so far.
#[derive(Debug)]
pub struct Draft {
    pub strategy: MatchStrategy,
    pub agents: Vec<AgentDraft>,
    pub providers: Vec<ProviderDraft>,
    tasks: Vec<Value>,
    /// The place of each task.
    places: Vec<String>,
    /// Size of the tasks in bytes.
    octets: usize,
    scoring: Map<String, Value>,
    ids: HashSet<String>,
    metrics: HashSet<String>,
    losses: Vec<Loss>,
    /// Index of each loss by its text; a document may have very many.
    known: HashMap<String, usize>,
}

impl Draft {
    pub fn new(strategy: MatchStrategy) -> Self {
        Self {
            strategy,
            agents: Vec::new(),
            providers: Vec::new(),
            tasks: Vec::new(),
            places: Vec::new(),
            octets: 0,
            scoring: Map::new(),
            ids: HashSet::new(),
            metrics: HashSet::new(),
            losses: Vec::new(),
            known: HashMap::new(),
        }
    }

    /// Records a detail that a task or the suite cannot hold.
    pub fn report_loss(&mut self, place: &str, description: impl Into<String>) {
        self.note(place, description.into());
    }

    /// Records a place that becomes no task, with the reason.
    pub fn skip(&mut self, place: &str, why: &str) {
        let loss = self.note(place, format!("{why}, left out"));
        // One place may stand for many tasks.
        if let Some(loss) = loss
            && loss.left_out.last().is_none_or(|last| last != place)
        {
            loss.left_out.push(place.to_owned());
        }
    }

    fn note(&mut self, place: &str, description: String) -> Option<&mut Loss> {
        let next = self.losses.len();
        let at = *self.known.entry(description.clone()).or_insert(next);
        if at == next {
            self.losses.push(Loss {
                what: description,
                count: 0,
                first: place.to_owned(),
                left_out: Vec::new(),
            });
        }
        let loss = self.losses.get_mut(at)?;
        loss.count += 1;
        Some(loss)
    }

    /// Whether a name of a metric can be used: a scoring document has a limited number.
    pub fn use_metric(&mut self, name: &str) -> bool {
        let has_room = self.metrics.contains(name) || self.metrics.len() < MAX_METRICS;
        if has_room {
            self.metrics.insert(name.to_owned());
        }
        has_room
    }

    /// Records all members of an object that were not converted.
    pub fn report_unknown(&mut self, place: &str, of: &str, rest: &Map<String, Value>) {
        for (name, _) in rest.iter().filter(|(_, value)| !value.is_null()) {
            let name = short(name);
            self.report_loss(
                place,
                format!("{name:?} of {of} has no equivalent in a suite"),
            );
        }
    }

    /// Whether no more tasks are added.
    pub fn is_full(&self) -> bool {
        self.tasks.len() >= MAX_TASKS || self.octets >= MAX_OCTETS
    }

    /// Adds a task with a name, an input and an expectation.
    pub fn add(
        &mut self,
        place: &str,
        name: Option<&Value>,
        input: Value,
        expectation: Expectation,
    ) {
        self.add_task(NewTask {
            place,
            name,
            input,
            expectation,
            fixtures: None,
            keeps_id: false,
        });
    }

    pub fn add_task(&mut self, new: NewTask<'_>) {
        if self.is_full() {
            self.skip(new.place, "a task after the first 100,000 or 256 MiB");
            return;
        }
        let parts = [&new.input, &new.expectation.expected];
        let parts = parts.into_iter().chain(&new.expectation.scoring);
        self.octets += parts.chain(&new.fixtures).map(octets).sum::<usize>();
        let id = match new.name.and_then(Value::as_str).filter(|_| new.keeps_id) {
            Some(id) => self.unique(new.place, id.to_owned(), true),
            None => self.id_of(new.place, new.name),
        };
        let mut task =
            json!({"taskId": id, "input": new.input, "expected": new.expectation.expected});
        if let (Some(fixtures), Some(members)) = (new.fixtures, task.as_object_mut()) {
            members.insert("fixtures".to_owned(), fixtures);
        }
        self.tasks.push(task);
        self.places.push(new.place.to_owned());
        if let Some(scoring) = new.expectation.scoring {
            self.scoring.insert(id, scoring);
        }
    }

    /// A unique id for the next task.
    fn id_of(&mut self, place: &str, name: Option<&Value>) -> String {
        let number = self.tasks.len() + 1;
        let id = match name {
            Some(Value::String(text)) => {
                let has = |c: char| c.is_alphanumeric() && !c.is_ascii();
                if text.chars().any(has) || text.chars().count() > MAX_ID_CHARS {
                    self.report_loss(
                        place,
                        "characters of a name that ids cannot contain: ids have up to 64 \
                         lower-case ASCII letters, digits and hyphens",
                    );
                }
                slug(text)
            }
            Some(Value::Number(name)) => slug(&name.to_string()),
            None | Some(Value::Null) => String::new(),
            Some(_) => {
                self.report_loss(
                    place,
                    "a name that is not a string; the task has a number as its id",
                );
                String::new()
            }
        };
        let base = match id.is_empty() {
            true => format!("task-{number}"),
            false => id,
        };
        self.unique(place, base, name.is_some())
    }

    /// The id, with a number if an earlier task has it too. `is_named` says that the document gave
    /// the id.
    fn unique(&mut self, place: &str, base: String, is_named: bool) -> String {
        let mut id = base.clone();
        let mut suffix = 2;
        while !self.ids.insert(id.clone()) {
            id = format!("{base}-{suffix}");
            suffix += 1;
        }
        if suffix > 2 && is_named {
            self.report_loss(
                place,
                "a name that an earlier task has too; a number was appended",
            );
        }
        id
    }

    /// An expectation of this answer.
    pub fn golden(&self, answer: Value) -> Expectation {
        Expectation::plain(scoring::answer(self.strategy, answer))
    }

    /// The suite, if it has tasks.
    ///
    /// # Errors
    /// [`Fault::NoTasks`], [`Fault::NoSuite`].
    pub fn finish(self, identity: &Identity) -> Result<Imported, Fault> {
        if self.tasks.is_empty() {
            return Err(Fault::NoTasks(self.losses));
        }
        let modes: Vec<&str> = ["golden", "rubric"]
            .into_iter()
            .filter(|mode| {
                let kind = |task: &Value| task.pointer("/expected/kind") == Some(&json!(mode));
                self.tasks.iter().any(kind)
            })
            .collect();
        let mut suite = json!({
            "suiteId": identity.suite_id, "version": identity.version, "modes": modes, "tasks": self.tasks,
        });
        if let Some(members) = suite.as_object_mut() {
            if let Some(agent) = &identity.target_agent_id {
                members.insert("targetAgentId".to_owned(), json!(agent));
            }
            if let Some(score) = identity.pass_score {
                members.insert("thresholds".to_owned(), json!({"passScore": score}));
            }
        }
        let first = |faults: Vec<SuiteFault>| {
            Fault::NoSuite(faults.first().map(ToString::to_string).unwrap_or_default())
        };
        let parsed = check_suite(Kinds::NONE, &suite).map_err(first)?;
        Ok(Imported {
            scoring: scoring::document(&parsed, self.scoring).map_err(Fault::NoSuite)?,
            tools: tools(&suite),
            suite,
            agents: self.agents,
            providers: self.providers,
            places: self.places,
            losses: self.losses,
        })
    }
}

/// The approximate size of a value in bytes.
pub fn octets(value: &Value) -> usize {
    let inside: usize = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(octets).sum(),
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| name.len() + octets(member))
            .sum(),
        _ => 0,
    };
    inside.saturating_add(16)
}

/// The tools with fixtures in a suite. The description of a probe is for detectors, never a tool.
fn tools(suite: &Value) -> Vec<String> {
    let tasks = suite.get("tasks").and_then(Value::as_array);
    let responses = tasks
        .into_iter()
        .flatten()
        .filter_map(|task| task.pointer("/fixtures/toolResponses")?.as_array())
        .flatten();
    let names: BTreeSet<String> = responses
        .filter_map(|response| response.get("tool")?.as_str())
        .filter(|tool| *tool != SAFETY_TOOL)
        .map(str::to_owned)
        .collect();
    names.into_iter().collect()
}

/// A name, shortened: foreign names may be very long.
pub fn short(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(MAX_NAME_CHARS) {
        Some((end, _)) => Cow::Owned(format!("{}…", name.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(name),
    }
}

/// Converts a name to characters of ids: lower-case letters, digits, single hyphens.
pub fn slug(name: &str) -> String {
    let mut id = String::new();
    for c in name.chars().map(|c| c.to_ascii_lowercase()) {
        if id.len() == MAX_ID_CHARS {
            break;
        }
        if c.is_ascii_lowercase() || c.is_ascii_digit() {
            id.push(c);
        } else if !id.is_empty() && !id.ends_with('-') {
            id.push('-');
        }
    }
    id.trim_end_matches('-').to_owned()
}
