//! Prompts: inline, as chat messages, or in files. Each one becomes the instructions of an agent.

use serde_json::{Map, Value};

use super::files::{Reference, is_script};
use crate::rules::eval::import::draft::{Draft, short};
use crate::rules::eval::import::pack::AgentDraft;
use crate::rules::eval::import::source::{Files, document, has_extension, text};
use crate::rules::eval::import::table;

/// Maximum number of prompts.
const MAX_PROMPTS: usize = 100;
/// Extensions of prompt files that are read.
const READABLE: [&str; 9] = [
    "txt", "md", "json", "jsonl", "yaml", "yml", "j2", "csv", "prompt",
];

/// Reads all prompts.
pub fn read(prompts: Option<Value>, files: &dyn Files, draft: &mut Draft) -> Vec<AgentDraft> {
    let mut found = Vec::new();
    let items = match prompts {
        None => return found,
        Some(Value::Array(items)) => items,
        // The names of files, with labels.
        Some(Value::Object(labels))
            if !labels.contains_key("raw") && !labels.contains_key("id") =>
        {
            labels
                .into_iter()
                .map(|(id, label)| serde_json::json!({"id": id, "label": label}))
                .collect()
        }
        Some(one) => vec![one],
    };
    for (index, item) in items.into_iter().enumerate() {
        let place = format!("prompts[{index}]");
        if found.len() >= MAX_PROMPTS {
            draft.report_loss(&place, "a prompt after the first 100");
            continue;
        }
        let (text, label) = match item {
            Value::String(text) => (text, None),
            Value::Object(mut prompt) => {
                let mut take = |name: &str| match prompt.remove(name) {
                    Some(Value::String(text)) => Some(text),
                    _ => None,
                };
                let (label, raw, id) = (take("label"), take("raw"), take("id"));
                match raw.or(id) {
                    Some(text) => (text, label),
                    None => {
                        draft.report_loss(&place, "a prompt without `raw` or `id`");
                        continue;
                    }
                }
            }
            _ => {
                draft.report_loss(&place, "a prompt that is not a text");
                continue;
            }
        };
        match refers_to_file(&text) {
            true => from_files(&text, label, &place, files, draft, &mut found),
            false => found.push(AgentDraft {
                label: label.unwrap_or_else(|| format!("prompt-{}", index + 1)),
                prompt: instructions(&text),
            }),
        }
    }
    found
}

fn refers_to_file(text: &str) -> bool {
    text.starts_with("file://")
        || ["exec:", "python:", "langfuse://", "portkey://", "package:"]
            .iter()
            .any(|scheme| text.starts_with(scheme))
        || (!text.contains(char::is_whitespace)
            && !text.contains('{')
            && (has_extension(text, &READABLE) || is_script(text)))
}

fn from_files(
    reference: &str,
    label: Option<String>,
    place: &str,
    files: &dyn Files,
    draft: &mut Draft,
    found: &mut Vec<AgentDraft>,
) {
    let reference = match Reference::parse(reference) {
        Ok(reference) => reference,
        Err(reason) => {
            draft.report_loss(place, format!("a prompt that is {reason}"));
            return;
        }
    };
    let names = match reference.names(files) {
        Ok(names) => names,
        Err(reason) => {
            draft.report_loss(place, format!("a prompt in a file that {reason}"));
            return;
        }
    };
    for name in names {
        if found.len() >= MAX_PROMPTS {
            draft.report_loss(place, "a prompt after the first 100");
            return;
        }
        let base = label.clone().unwrap_or_else(|| stem(&name));
        let texts = files.read(&name).and_then(|bytes| texts_of(&name, &bytes));
        match texts {
            Ok(texts) => {
                let several = texts.len() > 1;
                for (index, (own, text)) in texts.into_iter().enumerate() {
                    let numbered = match several {
                        true => format!("{base}-{}", index + 1),
                        false => base.clone(),
                    };
                    found.push(AgentDraft {
                        label: own.unwrap_or(numbered),
                        prompt: instructions(&text),
                    });
                }
            }
            Err(reason) => draft.report_loss(
                place,
                format!(
                    "a prompt in {}, which cannot be read: {reason}",
                    short(&name)
                ),
            ),
        }
    }
}

fn stem(name: &str) -> String {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.split('.').next().unwrap_or(file).to_owned()
}

/// The prompts in a file, with their labels.
fn texts_of(name: &str, bytes: &[u8]) -> Result<Vec<(Option<String>, String)>, String> {
    let whole = text(bytes)?;
    if has_extension(name, &["csv"]) {
        let rows = table::read(bytes)?.objects();
        let cell =
            |row: &Value, name: &str| row.get(name).and_then(Value::as_str).map(str::to_owned);
        let prompts = rows
            .iter()
            .filter_map(|row| Some((cell(row, "label"), cell(row, "prompt")?)))
            .take(MAX_PROMPTS);
        let prompts: Vec<_> = prompts.collect();
        return match prompts.is_empty() {
            true => Err("it has no column `prompt`".to_owned()),
            false => Ok(prompts),
        };
    }
    if has_extension(name, &["yaml", "yml"]) {
        // Messages in YAML have the same form as in JSON.
        let value = document(bytes)?;
        return Ok(vec![(None, value.to_string())]);
    }
    let parts: Vec<&str> = if has_extension(name, &["jsonl"]) {
        whole.lines().collect()
    } else if has_extension(name, &["txt"]) {
        split_at_rules(whole)
    } else {
        vec![whole]
    };
    let parts = parts
        .into_iter()
        .map(str::trim)
        .filter(|part| !part.is_empty());
    Ok(parts
        .take(MAX_PROMPTS)
        .map(|part| (None, part.to_owned()))
        .collect())
}

/// The parts of a text between lines of three hyphens.
fn split_at_rules(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_end() == "---" {
            parts.extend(text.get(start..at));
            start = at + line.len();
        }
        at += line.len();
    }
    parts.extend(text.get(start..));
    parts
}

/// The instructions for an agent: the text, or chat messages one after the other.
fn instructions(prompt: &str) -> String {
    let messages = match touchstone_kit::json::parse(prompt.trim().as_bytes()) {
        Ok(Value::Array(messages)) => messages,
        _ => return prompt.trim().to_owned(),
    };
    let part = |message: &Map<String, Value>| {
        let role = message.get("role")?.as_str()?.to_owned();
        let content = match message.get("content")? {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Some(match role.as_str() {
            "system" | "developer" => content,
            "assistant" => format!("Your earlier answer:\n{content}"),
            _ => content,
        })
    };
    let parts: Option<Vec<String>> = messages
        .iter()
        .map(|message| message.as_object().and_then(part))
        .collect();
    match parts {
        Some(parts) if !parts.is_empty() => parts.join("\n\n"),
        _ => prompt.trim().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chat_messages_become_one_text() {
        let prompt =
            r#"[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "{{q}}"}]"#;
        assert_eq!(instructions(prompt), "Be brief.\n\n{{q}}");
    }

    #[test]
    fn a_text_file_is_split_at_lines_of_hyphens() {
        assert_eq!(
            split_at_rules("a\n---\nb --- c\n---\n"),
            ["a\n", "b --- c\n", ""]
        );
    }
}
