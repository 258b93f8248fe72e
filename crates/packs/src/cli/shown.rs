//! Output about packs: JSON documents for programs, a few lines for people.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::rules::Refusal;
use crate::rules::inventory::PackFacts;
use crate::rules::verify::SignatureCoverage;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::cli::terminal::Terminal;
use touchstone_kit::error::ErrorCode;

/// Prints a refusal. The pack fails, unless its registry could not be reached.
pub fn refused(terminal: &Terminal, refusal: &Refusal) -> Exit {
    if terminal.json() {
        terminal.document(&json!({"ok": false, "error": refusal}));
    } else {
        let file = refusal
            .file
            .as_ref()
            .map(|file| format!("{file}: "))
            .unwrap_or_default();
        terminal.note(&format!("refused: {file}{}", refusal.reason));
        terminal.note(&format!("  code: {}", refusal.code));
        if let Some(remedy) = remedy(refusal) {
            terminal.note(&format!("  try: {remedy}"));
        }
    }
    if refusal.code == ErrorCode::PackRegistryUnreachable {
        Exit::NotDone
    } else {
        Exit::Negative
    }
}

/// A remedy for refusals that may not be the pack's fault.
fn remedy(refusal: &Refusal) -> Option<&'static str> {
    match refusal.code {
        ErrorCode::SignatureUnknownKey => Some(
            "if you trust the key, add --trust-key KEYID=FILE[:NAMESPACE,...], or --registry for keys listed by a registry",
        ),
        ErrorCode::PackIntegrityMismatch => {
            Some("fetch or sign the pack again: archive, .sig and .json belong together")
        }
        ErrorCode::PackNotApproved => Some("add the pack to `packs.allow` in the configuration"),
        _ => None,
    }
}

/// Prints a host's refusal of an uploaded pack like a local one.
pub fn answered(terminal: &Terminal, failure: Failure) -> Result<Exit, Failure> {
    let (Some(stage), code) = (failure.details.get("stage"), &failure.code) else {
        return Err(failure);
    };
    let file = failure.details.get("file").and_then(Value::as_str);
    if terminal.json() {
        let error = json!({"code": code, "stage": stage, "file": file, "reason": failure.message});
        terminal.document(&json!({"ok": false, "error": error}));
    } else {
        let file = file.map(|file| format!("{file}: ")).unwrap_or_default();
        terminal.note(&format!("refused by the host: {file}{}", failure.message));
        terminal.note(&format!("  code: {code}"));
        if *code == ErrorCode::SignatureUnknownKey.as_str() {
            terminal.note("  try: ask the host's operator to add the key to [[packs.keys]] of its configuration; --trust-key applies only to this command");
        }
    }
    Ok(Exit::Negative)
}

pub fn pack(terminal: &Terminal, verb: &str, facts: &PackFacts) {
    if terminal.json() {
        terminal.document(&json!({"ok": true, "pack": facts}));
        return;
    }
    let mut lines = summary(facts);
    if let Some(first) = lines.first_mut() {
        first.insert_str(0, &format!("{verb} "));
    }
    lines.insert(2, format!("  integrity  {}", facts.integrity));
    terminal.print(&lines.join("\n"));
    for warning in &facts.warnings {
        terminal.note(&format!("warning: {warning}"));
    }
}

/// A pack in a few lines: contents, signature, missing capabilities.
pub fn summary(facts: &PackFacts) -> Vec<String> {
    let mut lines = vec![format!("{}@{}", facts.name, facts.version)];
    lines.push(format!("  signed     {}", signature(facts)));
    for agent in &facts.agents {
        lines.push(format!(
            "  agent      {} ({})",
            agent.agent_id, agent.model_class
        ));
    }
    for suite in &facts.suites {
        let unsigned = if suite.signed {
            ""
        } else {
            ", not covered by the signature"
        };
        lines.push(format!(
            "  suite      {} ({} tasks{unsigned})",
            suite.reference, suite.task_count
        ));
    }
    if !facts.degraded.is_empty() {
        lines.push(format!(
            "  degraded   this host lacks {}",
            facts.degraded.join(", ")
        ));
    }
    if !facts.dependencies.is_empty() {
        lines.push(format!(
            "  depends    on {}; not installed automatically, and not needed to evaluate its agents",
            dependencies(&facts.dependencies)
        ));
    }
    lines
}

/// Dependencies of a manifest, with their version ranges.
pub fn dependencies(named: &BTreeMap<String, String>) -> String {
    let named: Vec<String> = named
        .iter()
        .map(|(name, range)| format!("{name}@{range}"))
        .collect();
    named.join(", ")
}

/// Who signed a pack, and what the signature covers.
pub fn signature(facts: &PackFacts) -> String {
    let by = facts.signature.key_id.as_deref().unwrap_or_default();
    match facts.signature.coverage {
        SignatureCoverage::Tarball => format!("whole archive, by {by}"),
        SignatureCoverage::Manifest => {
            format!("pack.json only, by {by}; only the digest protects prompts, schemas and suites")
        }
        SignatureCoverage::None => "no".to_owned(),
    }
}
