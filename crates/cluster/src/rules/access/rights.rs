//! Which workers may execute which tasks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use touchstone_agents::rules::worker_labels::{WorkerLabel, WorkerLabels};
use touchstone_kit::ids::TenantId;

use crate::rules::subjects::is_token;

/// Stands for all tenants or all models.
const ANY: &str = "*";

/// A worker in the configuration of a host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerEntry {
    pub name: String,
    /// The tenants whose tasks it may execute; `*` for all.
    pub tenants: Vec<String>,
    /// The models whose tasks it may execute, as `provider/model`; `*` for all.
    #[serde(default = "any")]
    pub models: Vec<String>,
    /// The labels that it may have for tasks that require labels; `*` for all.
    #[serde(default = "any")]
    pub labels: Vec<String>,
}

fn any() -> Vec<String> {
    vec![ANY.to_owned()]
}

/// What a task needs of its worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    pub tenant: TenantId,
    /// The models that it calls, as `provider/model`.
    pub models: Vec<String>,
    /// The labels that it must have.
    pub labels: WorkerLabels,
    /// Bytes that it fetches in parts; 0 for a task that fits into a message.
    pub bytes: usize,
}

/// Why a worker may not execute a task.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, thiserror::Error,
)]
#[serde(rename_all = "snake_case")]
pub enum Forbidden {
    /// The list has no entry for the worker.
    #[error("the host has no entry for this worker in `[[cluster.workers]]`")]
    Worker,
    #[error("the entry of this worker in `[[cluster.workers]]` does not name the task's tenant")]
    Tenant,
    #[error("the entry of this worker in `[[cluster.workers]]` does not name the task's model")]
    Model,
    #[error(
        "the entry of this worker in `[[cluster.workers]]` does not name a label that the task requires"
    )]
    Label,
    /// It lacks a label.
    #[error("the worker does not have all labels that the task requires")]
    MissingLabel,
    /// It takes no task of this size in parts.
    #[error("the task is larger than `max_task_bytes` in the section `[cluster]` of the worker")]
    TooLarge,
}

/// The workers that a host knows. Without any entry, each worker may execute all tasks.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "Vec<WorkerEntry>")]
pub struct Rights(BTreeMap<String, WorkerEntry>);

impl Rights {
    /// # Errors
    /// What is wrong with the entries.
    pub fn new(entries: &[WorkerEntry]) -> Result<Self, String> {
        let mut workers = BTreeMap::new();
        for entry in entries {
            let name = &entry.name;
            if !is_token(name) {
                let problem = format!(
                    "has the name `{name}`, which must have 1 to 48 letters, digits, `-` and `_`"
                );
                return Err(problem);
            }
            let lists = [
                ("tenants", &entry.tenants),
                ("models", &entry.models),
                ("labels", &entry.labels),
            ];
            for (field, list) in lists {
                if list.is_empty() {
                    return Err(format!(
                        "must name `{field}` of the worker `{name}`; `*` stands for all"
                    ));
                }
            }
            if let Some(model) = entry
                .models
                .iter()
                .find(|it| *it != ANY && !it.contains('/'))
            {
                return Err(format!(
                    "names the model `{model}` of the worker `{name}`; write it as `provider/model`"
                ));
            }
            let labels = entry.labels.iter().filter(|it| *it != ANY);
            for label in labels {
                WorkerLabel::parse(label).map_err(|problem| {
                    format!("names the label `{label}` of the worker `{name}`, which {problem}")
                })?;
            }
            if workers.insert(name.clone(), entry.clone()).is_some() {
                return Err(format!("names the worker `{name}` twice"));
            }
        }
        Ok(Self(workers))
    }

    /// Whether a worker may execute a task, which says that it has these labels and takes tasks of up
    /// to `largest` bytes in parts.
    ///
    /// # Errors
    /// Why it may not.
    pub fn check(
        &self,
        worker: &str,
        labels: &WorkerLabels,
        largest: usize,
        needs: &Needs,
    ) -> Result<(), Forbidden> {
        if needs.bytes > largest {
            return Err(Forbidden::TooLarge);
        }
        if !labels.has_all(&needs.labels) {
            return Err(Forbidden::MissingLabel);
        }
        if self.0.is_empty() {
            return Ok(());
        }
        let entry = self.0.get(worker).ok_or(Forbidden::Worker)?;
        let names = |list: &[String], wanted: &str| list.iter().any(|it| it == ANY || it == wanted);
        if !names(&entry.tenants, needs.tenant.as_str()) {
            return Err(Forbidden::Tenant);
        }
        if !needs.models.iter().all(|model| names(&entry.models, model)) {
            return Err(Forbidden::Model);
        }
        let is_named = |label: &WorkerLabel| names(&entry.labels, label.as_str());
        match needs.labels.as_slice().iter().all(is_named) {
            true => Ok(()),
            false => Err(Forbidden::Label),
        }
    }
}

impl TryFrom<Vec<WorkerEntry>> for Rights {
    type Error = String;

    fn try_from(entries: Vec<WorkerEntry>) -> Result<Self, String> {
        Self::new(&entries).map_err(|problem| format!("`[[cluster.workers]]` {problem}"))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn entry(name: &str, tenants: &[&str], models: &[&str]) -> WorkerEntry {
        let list = |items: &[&str]| items.iter().map(|it| (*it).to_owned()).collect();
        WorkerEntry {
            name: name.to_owned(),
            tenants: list(tenants),
            models: list(models),
            labels: any(),
        }
    }

    fn labels(text: &str) -> WorkerLabels {
        WorkerLabels::parse(text).unwrap()
    }

    fn needs(tenant: &str, models: &[&str]) -> Needs {
        Needs {
            tenant: TenantId::from(tenant),
            models: models.iter().map(|it| (*it).to_owned()).collect(),
            labels: WorkerLabels::default(),
            bytes: 0,
        }
    }

    #[rstest]
    #[case("w1", "acme", &["openai/m"], Ok(()))]
    #[case("w1", "acme", &["openai/m", "openai/user"], Err(Forbidden::Model))]
    #[case("w1", "acme", &["other/m"], Err(Forbidden::Model))]
    #[case("w1", "umbrella", &["openai/m"], Err(Forbidden::Tenant))]
    #[case("w1", "*", &["openai/m"], Err(Forbidden::Tenant))]
    #[case("all", "umbrella", &["other/m"], Ok(()))]
    #[case("w2", "acme", &["openai/m"], Err(Forbidden::Worker))]
    #[case("*", "acme", &["openai/m"], Err(Forbidden::Worker))]
    fn a_worker_gets_the_tasks_of_its_entry(
        #[case] worker: &str,
        #[case] tenant: &str,
        #[case] models: &[&str],
        #[case] expected: Result<(), Forbidden>,
    ) {
        let entries = [
            entry("w1", &["acme"], &["openai/m"]),
            entry("all", &["*"], &["*"]),
        ];
        let rights = Rights::new(&entries).unwrap();
        let none = WorkerLabels::default();
        assert_eq!(
            rights.check(worker, &none, 0, &needs(tenant, models)),
            expected
        );
    }

    #[test]
    fn without_entries_each_worker_gets_all_tasks() {
        let rights = Rights::new(&[]).unwrap();
        let (none, needs) = (WorkerLabels::default(), needs("acme", &["openai/m"]));
        assert_eq!(rights.check("w1", &none, 0, &needs), Ok(()));
        let large = Needs { bytes: 9, ..needs };
        let checked = [0, 8, 9].map(|largest| rights.check("w1", &none, largest, &large));
        let too_large = Err(Forbidden::TooLarge);
        assert_eq!(checked, [too_large, too_large, Ok(())]);
    }

    #[rstest]
    #[case::no_list(&[], "gpu,region=eu", Ok(()))]
    #[case::no_list_and_no_label(&[], "gpu", Err(Forbidden::MissingLabel))]
    #[case::all_labels(&["*"], "gpu,region=eu,more", Ok(()))]
    #[case::some_labels(&["region=eu", "gpu"], "gpu,region=eu", Ok(()))]
    #[case::an_own_label(&["gpu"], "gpu,region=eu", Err(Forbidden::Label))]
    #[case::without_it(&["gpu"], "region=eu", Err(Forbidden::MissingLabel))]
    fn a_worker_needs_all_labels_and_the_right_to_them(
        #[case] allowed: &[&str],
        #[case] of_worker: &str,
        #[case] expected: Result<(), Forbidden>,
    ) {
        let allowed_labels: Vec<String> = allowed.iter().map(|it| (*it).to_owned()).collect();
        let listed = WorkerEntry {
            labels: allowed_labels,
            ..entry("w1", &["acme"], &["*"])
        };
        let entries: Vec<WorkerEntry> = (!allowed.is_empty())
            .then_some(listed)
            .into_iter()
            .collect();
        let needs = Needs {
            labels: labels("gpu,region=eu"),
            ..needs("acme", &["openai/m"])
        };
        let rights = Rights::new(&entries).unwrap();
        assert_eq!(rights.check("w1", &labels(of_worker), 0, &needs), expected);
    }

    #[rstest]
    #[case(&[entry("a.b", &["*"], &["*"])], "has the name `a.b`")]
    #[case(&[entry("a", &["*"], &["*"]), entry("a", &["*"], &["*"])], "the worker `a` twice")]
    #[case(&[entry("a", &[], &["*"])], "must name `tenants`")]
    #[case(&[entry("a", &["*"], &[])], "must name `models`")]
    #[case(&[entry("a", &["*"], &["gpt"])], "names the model `gpt`")]
    #[case(&[WorkerEntry { labels: vec!["a b".to_owned()], ..entry("a", &["*"], &["*"]) }], "names the label `a b`")]
    fn entries_without_a_clear_meaning_are_refused(
        #[case] entries: &[WorkerEntry],
        #[case] expected: &str,
    ) {
        let problem = Rights::new(entries).unwrap_err();
        assert!(problem.contains(expected), "{problem}");
    }
}
