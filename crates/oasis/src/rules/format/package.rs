//! A domain profile with all its files.

use std::collections::{BTreeMap, BTreeSet};

use super::drafts::ParsedScenarios;
use super::library::{Behaviors, Stimuli, read_behaviors, read_stimuli};
use super::node::{Node, SourcePosition, documents};
use super::problem::{Problem, Problems};
use super::profile::{self, About};
use super::scenario::{Context, Scenario, read_file};
use super::{requirements, reserved, suite};
use crate::rules::preflight::Requirements;
use crate::rules::profile::Profile;
use crate::rules::scenario::Classification;

/// Maximum number of files in a profile.
pub const MAX_FILES: usize = 500;

/// Maximum total size of a profile's files in bytes.
pub const MAX_OCTETS: usize = 8 * 1024 * 1024;

/// Maximum number of scenarios in a profile.
pub const MAX_SCENARIOS: usize = 2_000;

const PROFILE: &str = "profile.yaml";
const BEHAVIORS: &str = "behaviors.yaml";
const STIMULI: &str = "stimuli.yaml";
const CONTRACT: &str = "provider-conformance-requirements.yaml";
const SUITE: &str = "suite.yaml";
const SCENARIOS: &str = "scenarios/";
const RESERVED: &str = "reserved/";

/// A domain profile with all its files.
#[derive(Clone, Debug, PartialEq)]
pub struct Package {
    /// The parts that verdicts depend on.
    pub profile: Profile,
    /// The parts that only a report needs.
    pub about: About,
    pub requirements: Requirements,
    /// The behaviors that assertions name.
    pub behaviors: Behaviors,
    /// The stimuli that scenarios refer to.
    pub stimuli: Stimuli,
    /// The suite's id and version, if the profile has a suite.
    pub suite: Option<(String, String)>,
    /// The scenarios of the suite, in its order. Without a suite: all scenarios, safety first.
    pub scenarios: Vec<Scenario>,
    /// The scenarios that the suite omits.
    pub unlisted: Vec<Scenario>,
    /// Unpublished scenarios, safety first. They are not part of the suite, and only their outcomes
    /// are ever disclosed.
    pub reserved: Vec<Scenario>,
    /// The measures that the profile declares.
    pub measures: BTreeSet<String>,
    /// The problems of documents that have an id but cannot be loaded as scenarios. Runs that
    /// select them are refused.
    pub headless: Vec<Problem>,
}

impl Package {
    /// A scenario of the suite, by id.
    pub fn scenario(&self, id: &str) -> Option<&Scenario> {
        self.scenarios.iter().find(|scenario| scenario.id() == id)
    }

    /// The number of unpublished scenarios.
    pub fn reserved_count(&self) -> usize {
        self.reserved.len()
    }

    /// All problems of the scenarios; a published profile has none.
    pub fn problems(&self) -> Vec<Problem> {
        let of_scenarios = problems_of(&self.scenarios).chain(problems_of(&self.unlisted));
        self.headless.iter().chain(of_scenarios).cloned().collect()
    }
}

/// The contents of a profile's files, and all problems in them.
#[derive(Clone, Debug, Default)]
pub struct Examined {
    /// The profile, if enough of it can be read.
    pub package: Option<Package>,
    /// The problems that reject the profile, in file order.
    pub faults: Vec<Problem>,
    /// The problems that make scenarios malformed.
    pub malformed: Vec<Problem>,
    /// The problems of scenarios that the suite omits.
    pub unlisted: Vec<Problem>,
}

/// Reads a profile from its files, keyed by the path below the profile's folder. Other files are
/// ignored.
///
/// # Errors
/// All problems that reject the profile, in file order.
pub fn read<B: AsRef<[u8]>>(files: &BTreeMap<String, B>) -> Result<Package, Vec<Problem>> {
    let examined = examine(files);
    match examined.package {
        Some(package) if examined.faults.is_empty() => Ok(package),
        _ => Err(examined.faults),
    }
}

/// Reads a profile from its files like [`read`], but continues after problems where possible.
pub fn examine<B: AsRef<[u8]>>(files: &BTreeMap<String, B>) -> Examined {
    let refused = |faults| Examined {
        faults,
        ..Examined::default()
    };
    if let Err(faults) = bounded(files) {
        return refused(faults);
    }
    let files = Files(
        files
            .iter()
            .map(|(path, bytes)| (path.as_str(), bytes.as_ref()))
            .collect(),
    );
    let mut found = Vec::new();
    let of_profile = files.one(PROFILE, &mut found, profile::read).flatten();
    let behaviors = files.maybe(BEHAVIORS, &mut found, read_behaviors);
    let stimuli = files.maybe(STIMULI, &mut found, read_stimuli);
    // Everything else is checked against the profile.
    let Some(profile::ParsedProfile {
        profile,
        about,
        contract,
        measures,
        intent_required,
    }) = of_profile
    else {
        return refused(found);
    };
    let contract = contract.as_deref().unwrap_or(CONTRACT);
    let requirements = files.one(contract, &mut found, |node, problems| {
        requirements::read(node, &profile, problems)
    });
    let suite = files.maybe(SUITE, &mut found, |node, problems| {
        suite::read(node, &profile, problems)
    });
    let (behaviors, stimuli) = (behaviors.unwrap_or_default(), stimuli.unwrap_or_default());
    let context = Context {
        profile: &profile,
        behaviors: &behaviors,
        stimuli: &stimuli,
        measures: &measures,
        intent_required: &intent_required,
        of_probes: false,
    };
    let mut drafts = files.scenarios(&context, &mut found);
    let suite = suite.flatten();
    if let Some(suite) = &suite {
        drafts.order((SUITE, suite), &mut found);
    }
    let reserved = reserved::read(files.below(RESERVED), &context, &drafts.ids, &mut found);
    let malformed = drafts.headless.iter().chain(problems_of(&drafts.scenarios));
    Examined {
        malformed: malformed.cloned().collect(),
        unlisted: problems_of(&drafts.unlisted).cloned().collect(),
        faults: found,
        package: requirements.map(|requirements| Package {
            requirements,
            about,
            suite: suite.map(|suite| (suite.id, suite.version)),
            scenarios: drafts.scenarios,
            unlisted: drafts.unlisted,
            headless: drafts.headless,
            reserved,
            measures,
            behaviors,
            stimuli,
            profile,
        }),
    }
}

fn problems_of(scenarios: &[Scenario]) -> impl Iterator<Item = &Problem> {
    scenarios.iter().flat_map(|scenario| &scenario.problems)
}

/// Reads a single scenario file without resolving its references.
///
/// # Errors
/// The problems that keep a document from being loaded as a scenario. All other problems are stored
/// with the scenario.
pub fn read_scenarios(file: &str, bytes: &[u8]) -> Result<Vec<Scenario>, Vec<Problem>> {
    let mut drafts = ParsedScenarios::default();
    drafts.take(read_file(file, bytes, None)?);
    if drafts.headless.is_empty() {
        Ok(drafts.scenarios)
    } else {
        Err(drafts.headless)
    }
}

fn bounded<B: AsRef<[u8]>>(files: &BTreeMap<String, B>) -> Result<(), Vec<Problem>> {
    let bytes: usize = files.values().map(|bytes| bytes.as_ref().len()).sum();
    let words = if files.len() > MAX_FILES {
        format!(
            "there are {} files, at most {MAX_FILES} are allowed",
            files.len()
        )
    } else if bytes > MAX_OCTETS {
        format!("the files have {bytes} bytes, at most {MAX_OCTETS} are allowed")
    } else {
        return Ok(());
    };
    Err(of_whole(PROFILE, words))
}

/// A problem of a file as a whole.
fn of_whole(file: &str, words: impl Into<String>) -> Vec<Problem> {
    let mut problems = Problems::of_file(file);
    problems.note(SourcePosition::START, "", words);
    problems.into_vec()
}

struct Files<'a>(BTreeMap<&'a str, &'a [u8]>);

impl Files<'_> {
    /// Reads a required file that contains one document.
    fn one<T>(
        &self,
        path: &str,
        found: &mut Vec<Problem>,
        read: impl FnOnce(&Node, &mut Problems) -> T,
    ) -> Option<T> {
        if !self.0.contains_key(path) {
            found.extend(of_whole(path, "is missing; add the file"));
        }
        self.maybe(path, found, read)
    }

    /// Reads an optional file that contains one document.
    fn maybe<T>(
        &self,
        path: &str,
        found: &mut Vec<Problem>,
        read: impl FnOnce(&Node, &mut Problems) -> T,
    ) -> Option<T> {
        let bytes = self.0.get(path)?;
        let mut problems = Problems::of_file(path);
        let value = match documents(bytes) {
            Err((place, words)) => {
                problems.note(place, "", words);
                None
            }
            Ok(nodes) => match nodes.as_slice() {
                [only] => Some(read(only, &mut problems)),
                _ => {
                    let words = format!("must contain one document, not {}", nodes.len());
                    problems.note(SourcePosition::START, "", words);
                    None
                }
            },
        };
        found.extend(problems.into_vec());
        value
    }

    /// The YAML files of a folder.
    fn below(&self, folder: &str) -> impl Iterator<Item = (&str, &[u8])> {
        self.0
            .iter()
            .filter(move |(path, _)| path.starts_with(folder))
            .filter(|(path, _)| path.ends_with(".yaml") || path.ends_with(".yml"))
            .map(|(path, bytes)| (*path, *bytes))
    }

    fn scenarios(&self, context: &Context<'_>, found: &mut Vec<Problem>) -> ParsedScenarios {
        let mut drafts = ParsedScenarios::default();
        for (path, bytes) in self.below(SCENARIOS) {
            match read_file(path, bytes, Some(context)) {
                Ok(some) => drafts.take(some),
                Err(problems) => found.extend(problems),
            }
            if drafts.ids.len() > MAX_SCENARIOS {
                let words = format!("exceeds the limit of {MAX_SCENARIOS} scenarios");
                found.extend(of_whole(path, words));
                break;
            }
        }
        drafts
            .scenarios
            .sort_by_key(|scenario| scenario.descriptor.classification != Classification::Safety);
        drafts
    }
}
