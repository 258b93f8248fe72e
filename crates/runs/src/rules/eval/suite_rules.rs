//! Validation of suites: strict JSON, the schema, and the rules that a schema cannot express (RFC
//! 0081 §A).
//!
//! Also the grammar of `evalSuiteRef` on `POST /v1/runs`, which the RFC only shows by example:
//!
//! ```text
//! evalSuiteRef = suiteId "@" number "." number "." number     ; no leading zeros, at most 256 bytes
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use super::safety::probe::{self, Probe};
use crate::rules::kind::Kinds;
use touchstone_kit::json;
use touchstone_openwop::schema::Document;
use touchstone_openwop::suite::{AgentEvalSuite, ExpectedKind, SuiteDocument, SuiteFault, Task};

/// Maximum length of a reference in bytes.
pub const MAX_REF_OCTETS: usize = 256;

/// Parses a suite.
///
/// # Errors
/// Everything that is wrong with it. If there are schema violations, only those are returned.
pub fn read_suite(kinds: Kinds, bytes: &[u8]) -> Result<SuiteDocument, Vec<SuiteFault>> {
    let value = json::parse(bytes).map_err(|error| vec![SuiteFault::new("", error.to_string())])?;
    document_of(kinds, &value)
}

/// Parses a suite in YAML; only constructs that JSON has are accepted.
///
/// # Errors
/// As [`read_suite`].
pub fn read_yaml_suite(kinds: Kinds, bytes: &[u8]) -> Result<SuiteDocument, Vec<SuiteFault>> {
    let fault = |reason: &str| vec![SuiteFault::new("", reason)];
    let text = std::str::from_utf8(bytes).map_err(|_| fault("is not UTF-8"))?;
    let value: Value = serde_saphyr::from_str(text).map_err(|error| {
        // The library draws the place in the text; the first line has the error and its position.
        let words = error.to_string();
        fault(&format!(
            "is not YAML: {}",
            words.lines().next().unwrap_or("")
        ))
    })?;
    document_of(kinds, &value)
}

fn document_of(kinds: Kinds, value: &Value) -> Result<SuiteDocument, Vec<SuiteFault>> {
    Ok(SuiteDocument {
        suite: check_suite(kinds, value)?,
        canonical: json::canonical_text(value),
    })
}

/// Validates a parsed document.
///
/// # Errors
/// As [`read_suite`].
pub fn check_suite(kinds: Kinds, value: &Value) -> Result<AgentEvalSuite, Vec<SuiteFault>> {
    Document::AgentEvalSuite
        .check(value)
        .map_err(|violations| {
            violations
                .into_iter()
                .map(SuiteFault::from)
                .collect::<Vec<_>>()
        })?;
    let suite = deserialize_from(value).map_err(|reason| vec![SuiteFault::new("", reason)])?;
    let faults = rule_faults(kinds, &suite);
    if faults.is_empty() {
        Ok(suite)
    } else {
        Err(faults)
    }
}

fn deserialize_from(value: &Value) -> Result<AgentEvalSuite, String> {
    // The document satisfies the schema, so only a number that does not fit its field can fail
    // here.
    serde::Deserialize::deserialize(value)
        .map_err(|_| "has a value that is out of range".to_owned())
}

fn rule_faults(kinds: Kinds, suite: &AgentEvalSuite) -> Vec<SuiteFault> {
    let mut faults = Vec::new();
    if suite.reference().parse::<SuiteRef>().is_err() {
        faults.push(SuiteFault::new(
            "/version",
            "no reference can name this suite: use numbers without leading zeros, and at most 256 \
             bytes for `suiteId@version`",
        ));
    }
    let mut seen = BTreeSet::new();
    for (index, task) in suite.tasks.iter().enumerate() {
        if !seen.insert(&task.task_id) {
            faults.push(SuiteFault::new(
                format!("/tasks/{index}/taskId"),
                "is used by an earlier task; task ids are unique in a suite",
            ));
        }
        faults.extend(probe_faults(task, index));
        let expected = format!("/tasks/{index}/expected");
        match (
            task.expected.kind,
            &task.expected.matching,
            &task.expected.rubric,
        ) {
            (ExpectedKind::Golden, None, _)
                if kinds.iter().any(|kind| kind.is_expectation_of(task)) => {}
            (ExpectedKind::Golden, None, _) => {
                faults.push(SuiteFault::new(expected, "is golden but has no `match`"));
            }
            (ExpectedKind::Rubric, _, None) => {
                faults.push(SuiteFault::new(expected, "is a rubric but has no `rubric`"));
            }
            (ExpectedKind::Rubric, _, Some(criteria)) => {
                let sum: f64 = criteria.iter().map(|criterion| criterion.weight).sum();
                if !(sum > 0.0 && sum.is_finite()) {
                    faults.push(SuiteFault::new(
                        format!("{expected}/rubric"),
                        "has weights that add up to 0, so there is no score",
                    ));
                }
            }
            (ExpectedKind::Golden, Some(_), _) => {}
        }
    }
    faults
}

fn probe_faults(task: &Task, index: usize) -> impl Iterator<Item = SuiteFault> {
    let responses = task.fixtures.iter().flat_map(|it| &it.tool_responses);
    responses.enumerate().filter_map(move |(at, response)| {
        let fault = match response.tool.as_str() {
            probe::TOOL => Probe::read(&response.response).err()?,
            _ => return None,
        };
        let place = format!("/tasks/{index}/fixtures/toolResponses/{at}/response");
        Some(SuiteFault::new(place + &fault.pointer, fault.reason))
    })
}

/// A reference to an installed suite.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SuiteRef {
    pub suite_id: String,
    /// Its exact version.
    pub version: String,
}

impl fmt::Display for SuiteRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.suite_id, self.version)
    }
}

/// The text is not a reference to a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be `suiteId@version` with an exact version of three numbers, such as `acme.evals.triage@1.0.0`"
)]
pub struct NotASuiteRef;

impl FromStr for SuiteRef {
    type Err = NotASuiteRef;

    fn from_str(text: &str) -> Result<Self, NotASuiteRef> {
        if text.len() > MAX_REF_OCTETS {
            return Err(NotASuiteRef);
        }
        let (suite_id, version) = text.split_once('@').ok_or(NotASuiteRef)?;
        if !is_suite_id(suite_id) || !is_version(version) {
            return Err(NotASuiteRef);
        }
        Ok(Self {
            suite_id: suite_id.to_owned(),
            version: version.to_owned(),
        })
    }
}

fn is_suite_id(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let Some((head, name)) = text.rsplit_once('.') else {
        return false;
    };
    let Some(space) = head.strip_suffix(".evals") else {
        return false;
    };
    !name.is_empty()
        && name.bytes().all(plain)
        && !space.is_empty()
        && space.bytes().all(|b| plain(b) || b == b'.')
}

fn is_version(text: &str) -> bool {
    let number = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_digit())
            && (part.len() == 1 || !part.starts_with('0'))
    };
    text.split('.').count() == 3 && text.split('.').all(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;

    fn suite() -> Value {
        json!({
            "suiteId": "community.bench.evals.label", "version": "1.0.0", "modes": ["golden", "rubric"],
            "tasks": [
                {"taskId": "a", "input": null, "expected": {"kind": "golden", "match": {"strategy": "exact", "value": "x"}}},
                {"taskId": "b", "input": {}, "expected": {"kind": "rubric", "rubric": [{"criterion": "c", "weight": 0.5}]},
                 "fixtures": {"toolResponses": [{"tool": "t"}], "memorySeed": [{"k": 1}]}}
            ]
        })
    }

    fn with(pointer: &str, value: Value) -> Vec<u8> {
        let mut document = suite();
        *document.pointer_mut(pointer).unwrap() = value;
        document.to_string().into_bytes()
    }

    #[test]
    fn a_valid_suite_is_parsed() {
        let document = read_suite(Kinds::NONE, suite().to_string().as_bytes()).unwrap();
        assert_eq!(
            document.suite.reference(),
            "community.bench.evals.label@1.0.0"
        );
        assert_eq!(document.suite.tasks.len(), 2);
        let again = read_suite(Kinds::NONE, document.canonical.as_bytes()).unwrap();
        assert_eq!(again.digest(), document.digest());
        assert_eq!(
            serde_json::to_value(&again.suite.tasks[0]).unwrap(),
            suite()["tasks"][0]
        );
    }

    #[rstest]
    #[case::duplicate_task("/tasks/1/taskId", json!("a"), "/tasks/1/taskId")]
    #[case::golden_without_match("/tasks/0/expected", json!({"kind": "golden"}), "/tasks/0/expected")]
    #[case::golden_with_a_rubric_only("/tasks/1/expected/kind", json!("golden"), "/tasks/1/expected")]
    #[case::rubric_without_criteria("/tasks/1/expected", json!({"kind": "rubric"}), "/tasks/1/expected")]
    #[case::weightless("/tasks/1/expected/rubric/0/weight", json!(0), "/tasks/1/expected/rubric")]
    #[case::leading_zero("/version", json!("1.00.0"), "/version")]
    #[case::no_probe(
        "/tasks/1/fixtures/toolResponses/0",
        json!({"tool": "touchstone:safety", "response": {"lures": [{}]}}),
        "/tasks/1/fixtures/toolResponses/0/response/lures/0"
    )]
    #[case::schema("/suiteId", json!("community.bench.evals.label\n"), "/suiteId")]
    fn suite_rules_beyond_the_schema_are_enforced(
        #[case] pointer: &str,
        #[case] value: Value,
        #[case] place: &str,
    ) {
        let faults = read_suite(Kinds::NONE, &with(pointer, value)).unwrap_err();
        assert_eq!(
            faults
                .iter()
                .map(|f| f.pointer.as_str())
                .collect::<Vec<_>>(),
            [place]
        );
    }

    #[test]
    fn integers_may_be_written_as_floating_point_numbers() {
        let mut document = suite();
        document["thresholds"] = json!({"maxP95LatencyMs": 8000.0});
        let suite = read_suite(Kinds::NONE, document.to_string().as_bytes())
            .unwrap()
            .suite;
        assert_eq!(suite.thresholds.unwrap().max_p95_latency_ms, Some(8000));
    }

    #[rstest]
    #[case("community.x.evals.label@1.0.0", true)]
    #[case("core.openwop.evals.support-resolver@10.20.30", true)]
    #[case("a.evals.b.evals.c@1.0.0", true)]
    #[case("", false)]
    #[case("@1.0.0", false)]
    #[case("community.x.evals.label", false)]
    #[case(".evals.label@1.0.0", false)]
    #[case("community.x.label@1.0.0", false)]
    #[case("community.x.evals.@1.0.0", false)]
    #[case("community.x.evals.Label@1.0.0", false)]
    #[case("community.x.evals.label@1.0", false)]
    #[case("community.x.evals.label@1.0.0.0", false)]
    #[case("community.x.evals.label@^1.0.0", false)]
    #[case("community.x.evals.label@latest", false)]
    #[case("community.x.evals.label@1.0.0@2.0.0", false)]
    #[case("community.x.evals.label@1.0.0 ", false)]
    #[case("community.x.evals.label@1.0.0\n", false)]
    #[case("community.x.evals.label@01.0.0", false)]
    #[case("../evals/label.json@1.0.0", false)]
    #[case("community.x.evals.label%401.0.0", false)]
    #[case("community.x.evals.labél@1.0.0", false)]
    fn a_reference_is_a_suite_and_an_exact_version(#[case] text: &str, #[case] sound: bool) {
        let parsed = text.parse::<SuiteRef>();
        assert_eq!(parsed.is_ok(), sound);
        if let Ok(reference) = parsed {
            assert_eq!(reference.to_string(), text);
        }
    }

    #[test]
    fn a_suite_reference_has_at_most_256_bytes() {
        let of = |length: usize| format!("a.evals.{}@1.0.0", "a".repeat(length - 14));
        assert_eq!(of(256).len(), 256);
        assert!(of(256).parse::<SuiteRef>().is_ok());
        assert!(of(257).parse::<SuiteRef>().is_err());
    }
}
