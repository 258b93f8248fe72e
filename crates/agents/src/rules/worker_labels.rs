//! Labels of workers, such as `gpu` or `region=eu`, and names of their commands. A task that requires
//! labels or a command is executed only by workers that have all of them.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

/// Most labels of a worker, a run or a model entry. Each set of a worker's labels can have queues.
pub const MAX_LABELS: usize = 8;
/// Longest label in bytes.
pub const MAX_LABEL: usize = 48;

/// Most labels in a message of another version that are read.
const MAX_KNOWN: usize = 64;

/// Longest name of a command in bytes.
pub const MAX_COMMAND: usize = 48;

/// Whether a command of workers may have this name.
pub fn is_command_name(name: &str) -> bool {
    is_word(name) && name.len() <= MAX_COMMAND
}

fn is_word(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !text.is_empty() && text.bytes().all(plain)
}

/// A name, or a name and a value: `gpu`, `region=eu`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WorkerLabel(String);

impl WorkerLabel {
    /// # Errors
    /// What a label must be.
    pub fn parse(text: &str) -> Result<Self, String> {
        let is_label = match text.split_once('=') {
            None => is_word(text),
            Some((name, value)) => is_word(name) && is_word(value),
        };
        if is_label && text.len() <= MAX_LABEL {
            return Ok(Self(text.to_owned()));
        }
        Err(format!(
            "must be `name` or `name=value` of letters, digits, `-`, `_` and `.`, at most {MAX_LABEL} characters together"
        ))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for WorkerLabel {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).map_err(|problem| format!("a label {problem}"))
    }
}

impl From<WorkerLabel> for String {
    fn from(label: WorkerLabel) -> Self {
        label.0
    }
}

impl fmt::Display for WorkerLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Labels without duplicates, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<WorkerLabel>", into = "Vec<WorkerLabel>")]
pub struct WorkerLabels(Vec<WorkerLabel>);

impl WorkerLabels {
    /// # Errors
    /// There are more than [`MAX_LABELS`].
    pub fn new(mut labels: Vec<WorkerLabel>) -> Result<Self, String> {
        labels.sort();
        labels.dedup();
        match labels.len() <= MAX_LABELS {
            true => Ok(Self(labels)),
            false => Err(format!(
                "must be at most {MAX_LABELS} labels, got {}",
                labels.len()
            )),
        }
    }

    /// Labels that are separated by commas: `gpu,region=eu`.
    ///
    /// # Errors
    /// What the text must be.
    pub fn parse(text: &str) -> Result<Self, String> {
        let labels = text.split(',').map(|it| WorkerLabel::parse(it.trim()));
        Self::new(labels.collect::<Result<_, _>>()?)
    }

    /// These labels and others.
    ///
    /// # Errors
    /// There are more than [`MAX_LABELS`].
    pub fn and(&self, others: &Self) -> Result<Self, String> {
        Self::new([self.as_slice(), others.as_slice()].concat())
    }

    pub fn as_slice(&self) -> &[WorkerLabel] {
        &self.0
    }

    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it contains all of `required`.
    pub fn has_all(&self, required: &Self) -> bool {
        required.0.iter().all(|label| self.0.contains(label))
    }
}

/// The labels in a message of another version: those that this version knows. No task of this
/// version needs the others.
///
/// # Errors
/// The value is not an array of strings.
pub fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<WorkerLabels, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let mut labels: Vec<WorkerLabel> = texts
        .iter()
        .filter_map(|it| WorkerLabel::parse(it).ok())
        .take(MAX_KNOWN)
        .collect();
    labels.sort();
    labels.dedup();
    Ok(WorkerLabels(labels))
}

/// No labels.
pub static NO_LABELS: WorkerLabels = WorkerLabels(Vec::new());

impl TryFrom<Vec<WorkerLabel>> for WorkerLabels {
    type Error = String;

    fn try_from(labels: Vec<WorkerLabel>) -> Result<Self, String> {
        Self::new(labels)
    }
}

impl From<WorkerLabels> for Vec<WorkerLabel> {
    fn from(labels: WorkerLabels) -> Self {
        labels.0
    }
}

impl fmt::Display for WorkerLabels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels: Vec<&str> = self.0.iter().map(WorkerLabel::as_str).collect();
        f.write_str(&labels.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("gpu")]
    #[case("region=eu-central-1")]
    #[case("cuda=12.4")]
    fn a_label_is_a_name_with_or_without_a_value(#[case] text: &str) {
        assert_eq!(WorkerLabel::parse(text).unwrap().as_str(), text);
    }

    #[rstest]
    #[case("")]
    #[case("=eu")]
    #[case("region=")]
    #[case("a=b=c")]
    #[case("two words")]
    #[case("a.*\u{1b}")]
    #[case("a,b")]
    #[case(&"x".repeat(49))]
    fn other_texts_are_refused(#[case] text: &str) {
        assert!(WorkerLabel::parse(text).is_err());
    }

    fn labels(text: &str) -> WorkerLabels {
        WorkerLabels::parse(text).unwrap()
    }

    #[test]
    fn labels_are_a_set() {
        let found = labels("region=eu, gpu,gpu");
        assert_eq!(found.to_string(), "gpu, region=eu");
        assert!(found.has_all(&labels("gpu")) && found.has_all(&NO_LABELS));
        assert!(!found.has_all(&labels("gpu,region=us")) && !found.has_all(&labels("GPU")));
        assert_eq!(
            labels("gpu").and(&labels("region=eu,gpu")),
            Ok(found.clone())
        );
        let text = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<WorkerLabels>(&text).unwrap(), found);
        let many = (0..9).map(|n| WorkerLabel::parse(&format!("l{n}")).unwrap());
        let problem = WorkerLabels::new(many.collect()).unwrap_err();
        assert!(problem.contains("at most 8 labels, got 9"), "{problem}");
        let others = labels("1,2,3,4,5,6,7,8");
        assert!(found.and(&others).is_err());
        for text in ["", "gpu,", "gpu;eu"] {
            assert!(WorkerLabels::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn labels_of_a_later_version_are_left_out() {
        #[derive(Deserialize)]
        struct Message {
            #[serde(deserialize_with = "known")]
            labels: WorkerLabels,
        }
        let text = r#"{"labels": ["b", "a/c", "a", "1", "2", "3", "4", "5", "6", "7"]}"#;
        let message: Message = serde_json::from_str(text).unwrap();
        assert_eq!(message.labels.as_slice().len(), 9);
        assert!(message.labels.has_all(&labels("a,b,7")));
    }
}
