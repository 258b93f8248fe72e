//! The pack that `pack init` creates: one agent, its prompt and schemas, and a suite that evaluates
//! it.

use crate::rules::build::Files;
use crate::rules::name::is_pack_name;

const FILES: [(&str, &str); 6] = [
    ("README.md", include_str!("new_pack/README.md")),
    (
        "evals/label.json",
        include_str!("new_pack/evals/label.json"),
    ),
    ("pack.json", include_str!("new_pack/pack.json")),
    (
        "prompts/agent.md",
        include_str!("new_pack/prompts/agent.md"),
    ),
    (
        "schemas/label.return.schema.json",
        include_str!("new_pack/schemas/label.return.schema.json"),
    ),
    (
        "schemas/label.task.schema.json",
        include_str!("new_pack/schemas/label.task.schema.json"),
    ),
];

/// The files of a new pack; `None` if the name is not a valid pack name.
pub fn new_pack(name: &str) -> Option<Files> {
    if !is_pack_name(name) {
        return None;
    }
    // The first two segments: the suites belong to the publisher's namespace.
    let space: Vec<&str> = name.split('.').take(2).collect();
    let fill = |text: &str| {
        text.replace("{{name}}", name)
            .replace("{{space}}", &space.join("."))
    };
    let files = FILES
        .iter()
        .map(|(file, text)| ((*file).to_owned(), fill(text).into_bytes()));
    Some(files.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pack_template_requires_a_valid_name() {
        assert!(new_pack("ticket-labels").is_none());
    }
}
