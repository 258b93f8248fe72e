//! Lints a pack folder before it is built: applies the install rules and reports all findings at
//! once.

use serde::Serialize;

use crate::rules::archive::{Archive, EMBEDDED_SIGNATURE, MANIFEST};
use crate::rules::attachments;
use crate::rules::build::{self, Files};
use crate::rules::contents::{
    self, PackContents, is_scoring_file, is_suite_file, scoring_fault, scoring_file,
};
use crate::rules::format::PackFormat;
use crate::rules::manifest::Host;
use crate::rules::{Refusal, archive};
use touchstone_kit::json_place::place;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The pack would be refused.
    Error,
    /// The pack installs, but something is probably a mistake.
    Warning,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub severity: Severity,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in the file, from 1, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The column in the line, from 1, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
    pub reason: String,
}

impl Finding {
    pub fn new(severity: Severity, file: Option<&str>, reason: impl Into<String>) -> Self {
        Self {
            severity,
            file: file.map(str::to_owned),
            line: None,
            column: None,
            reason: reason.into(),
        }
    }
}

impl From<Refusal> for Finding {
    fn from(refusal: Refusal) -> Self {
        Self {
            severity: Severity::Error,
            file: refusal.file,
            line: None,
            column: None,
            reason: refusal.reason,
        }
    }
}

/// Lints the files of a pack. Without an error finding, the pack installs once it is signed.
pub fn lint(files: &Files, host: &Host, format: PackFormat) -> Vec<Finding> {
    let known = suite_findings(files, format);
    let mut findings = known.clone();
    match build::build(files).and_then(|tgz| archive::read(&tgz)) {
        Ok(archive) => {
            // Loading stops at the first fault of a suite, which is already among the findings.
            let more = content_findings(archive, host, format);
            findings.extend(more.into_iter().filter(|f| {
                !known
                    .iter()
                    .any(|known| known.file == f.file && known.reason == f.reason)
            }));
        }
        Err(refusal) => findings.push(refusal.into()),
    }
    findings.sort_by(|a, b| (a.severity, &a.file).cmp(&(b.severity, &b.file)));
    findings
}

/// Lints the files of a pack, and also the parts of other features, whose files install although
/// they cannot be used.
pub fn lint_whole(files: &Files, host: &Host, format: PackFormat) -> Vec<Finding> {
    let parts = format.parts.iter();
    let mut findings: Vec<Finding> = parts
        .flat_map(|part| part.lint(files, format.read_suite))
        .collect();
    // Loading stops at the first fault of a part. It is already among the findings, with the
    // location prefixed.
    let is_known = |known: &[Finding], it: &Finding| {
        known
            .iter()
            .any(|known| known.file == it.file && it.reason.ends_with(&known.reason))
    };
    let mut more = lint(files, host, format);
    more.retain(|it| !is_known(&findings, it));
    findings.append(&mut more);
    findings.sort_by_cached_key(|it| (it.severity, it.file.clone(), it.line, it.column));
    findings
}

/// Every fault of every suite and its scoring document; loading stops at the first.
fn suite_findings(files: &Files, format: PackFormat) -> Vec<Finding> {
    let mut findings = Vec::new();
    let suites = files
        .iter()
        .filter(|(name, bytes)| is_suite_file(name, bytes));
    for (name, bytes) in suites {
        let document = match (format.read_suite)(bytes) {
            Ok(document) => document,
            Err(faults) => {
                findings.extend(
                    faults
                        .iter()
                        .map(|fault| Finding::new(Severity::Error, Some(name), fault.to_string())),
                );
                continue;
            }
        };
        let file = scoring_file(name).unwrap_or_default();
        let scoring = files.get(&file).filter(|it| is_scoring_file(&file, it));
        let read = scoring.map(|bytes| (format.read_scoring)(bytes, &document.suite));
        let faults = match read {
            None => Vec::new(),
            Some(Err(faults)) => faults,
            Some(Ok(canonical)) => {
                attachments::faults(&canonical, |it| files.get(it).map(Vec::as_slice))
            }
        };
        for fault in faults {
            let text = scoring.map(Vec::as_slice).unwrap_or_default();
            let (line, column) = place(text, &fault.pointer);
            findings.push(Finding {
                line: Some(line),
                column: Some(column),
                ..Finding::new(Severity::Error, Some(&file), scoring_fault(&fault))
            });
        }
    }
    findings
}

fn content_findings(archive: Archive, host: &Host, format: PackFormat) -> Vec<Finding> {
    let contents = match contents::load(archive, host, format) {
        Ok(contents) => contents,
        Err(refusal) => return vec![refusal.into()],
    };
    let warning =
        |file: Option<&str>, reason: String| Finding::new(Severity::Warning, file, reason);
    let mut findings: Vec<Finding> = contents
        .warnings
        .iter()
        .map(|text| warning(Some(MANIFEST), text.clone()))
        .collect();
    for name in contents.manifest.dependencies.keys() {
        let reason = format!(
            "/dependencies: {name} is not installed with the pack; its agents are evaluated \
            without it"
        );
        findings.push(warning(Some(MANIFEST), reason));
    }
    for capability in &contents.degraded {
        let reason = format!("this host lacks {capability}; the pack would install degraded");
        findings.push(warning(Some(MANIFEST), reason));
    }
    for name in contents
        .archive
        .files
        .keys()
        .filter(|name| !is_used(&contents, name))
    {
        findings.push(warning(
            Some(name),
            "is in the pack, but nothing refers to it".to_owned(),
        ));
    }
    findings.extend(input_findings(&contents));
    findings
}

fn is_used(contents: &PackContents, name: &str) -> bool {
    let plain = !name.contains('/');
    let referenced = contents
        .agents
        .iter()
        .map(|agent| &agent.manifest)
        .any(|agent| {
            let handoff = agent.handoff.as_ref();
            [
                agent.system_prompt_ref.as_ref(),
                agent.eval_suite_ref.as_ref(),
                handoff.and_then(|h| h.task_schema_ref.as_ref()),
                handoff.and_then(|h| h.return_schema_ref.as_ref()),
            ]
            .into_iter()
            .flatten()
            .any(|reference| reference == name)
        });
    let judged = name.starts_with("prompts/") || name.starts_with("schemas/");
    plain || referenced || !judged || name == EMBEDDED_SIGNATURE
}

/// Task inputs that the suite's agents would refuse.
fn input_findings(contents: &PackContents) -> Vec<Finding> {
    let mut findings = Vec::new();
    for suite in &contents.suites {
        let reference = suite.suite().reference();
        let target = suite.suite().target_agent_id.as_ref();
        for agent in &contents.agents {
            let meant = target.is_some_and(|id| id.as_str() == agent.manifest.agent_id)
                || target.is_none() && agent.suite.as_ref() == Some(&reference);
            let Some(schema) = agent.task_schema.as_ref().filter(|_| meant) else {
                continue;
            };
            for (index, task) in suite.suite().tasks.iter().enumerate() {
                if let Some(violation) = schema.first_violation(&task.input) {
                    let reason = format!(
                        "/tasks/{index}/input: the task schema of {} refuses it: {violation}",
                        agent.manifest.agent_id
                    );
                    findings.push(Finding::new(Severity::Warning, Some(&suite.file), reason));
                }
            }
        }
    }
    findings
}
