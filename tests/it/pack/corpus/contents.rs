//! References, prompts, schemas.

use serde_json::{Value, json};
use touchstone_kit::error::ErrorCode::{
    InvalidManifest, PackValidationFailed, TarballEntryMissing,
};

use super::forge::{Entry, Forge};
use super::{Case, loads, loads_and, refused};

fn file(name: &'static str, bytes: impl AsRef<[u8]>) -> impl FnOnce(&mut Forge) {
    let bytes = bytes.as_ref().to_vec();
    move |f| drop(f.files.insert(name.into(), bytes))
}

fn schema(value: Value) -> impl FnOnce(&mut Forge) {
    file("schemas/in.json", value.to_string())
}

#[test]
fn a_schema_that_would_fill_the_memory_is_refused_while_it_is_parsed() {
    let mut forge = Forge::new("schema-memory");
    let values = format!("[{}0]", r#"{"a":0},"#.repeat(100_000));
    file("schemas/in.json", values)(&mut forge);
    let refusal = forge.judge().0.unwrap_err();
    assert_eq!(refusal.code, PackValidationFailed);
    assert!(refusal.to_string().contains("too many values"), "{refusal}");
}

pub fn cases() -> Vec<Case> {
    let prompt = |name, reference: &'static str, code| {
        refused(name, code, move |f| {
            f.agent()["systemPromptRef"] = reference.into()
        })
    };
    let dangles = |name, path: &'static str| refused(name, TarballEntryMissing, file(path, b""));
    let bad_schema = |name, value: Value| refused(name, PackValidationFailed, schema(value));
    vec![
        loads_and(
            "resolved",
            |pack| {
                let agent = &pack.contents.agents[0];
                agent.prompt.starts_with("Name the colour")
                    && agent
                        .task_schema
                        .as_ref()
                        .unwrap()
                        .is_valid(&json!({"thing": "x"}))
                    && !agent
                        .return_schema
                        .as_ref()
                        .unwrap()
                        .is_valid(&json!({"thing": "x"}))
                    && agent.suite.as_deref() == Some("community.bench-corpus.evals.colour@1.0.0")
            },
            |_| {},
        ),
        loads("inline", |f| {
            let id = f.agent()["agentId"].clone();
            *f.agent() = json!({"agentId": id, "persona": "p", "modelClass": "general", "systemPrompt": "Paint."});
        }),
        dangles("prompt-dangles", "prompts/colour.md"),
        dangles("schema-dangles", "schemas/out.json"),
        refused("suite-dangles", TarballEntryMissing, |f| {
            f.agent()["evalSuiteRef"] = "evals/none.json".into()
        }),
        prompt("ref-parent", "../../etc/hostname", PackValidationFailed),
        prompt(
            "ref-inner-parent",
            "schemas/../prompts/colour.md",
            PackValidationFailed,
        ),
        prompt("ref-dot", "./prompts/colour.md", PackValidationFailed),
        prompt("ref-absolute", "/prompts/colour.md", PackValidationFailed),
        prompt("ref-backslash", "prompts\\colour.md", PackValidationFailed),
        prompt("ref-percent", "prompts%2fcolour.md", PackValidationFailed),
        prompt("ref-query", "prompts/colour.md?x", PackValidationFailed),
        prompt("ref-fragment", "prompts/colour.md#x", PackValidationFailed),
        prompt("ref-file-url", "file:///etc/hostname", PackValidationFailed),
        prompt("ref-http-url", "http://127.0.0.1:9/x", PackValidationFailed),
        prompt("ref-empty", "", InvalidManifest),
        prompt("ref-case", "Prompts/colour.md", TarballEntryMissing),
        refused("ref-folder", TarballEntryMissing, |f| {
            f.agent()["systemPromptRef"] = "prompts".into();
            f.add(vec![Entry::of(b'5', "prompts/")]);
        }),
        refused(
            "prompt-not-utf8",
            PackValidationFailed,
            file("prompts/colour.md", b"blue \xf0\x9f\x98"),
        ),
        refused(
            "schema-no-json",
            PackValidationFailed,
            file("schemas/in.json", b"{"),
        ),
        refused(
            "schema-double-member",
            PackValidationFailed,
            file("schemas/in.json", br#"{"type":"object","type":"string"}"#),
        ),
        bad_schema("schema-no-schema", json!({"type": 12})),
        bad_schema(
            "schema-other-draft",
            json!({"$schema": "http://json-schema.org/draft-07/schema#"}),
        ),
        bad_schema(
            "schema-remote",
            json!({"$ref": "http://127.0.0.1:9/x.json"}),
        ),
        bad_schema("schema-sibling", json!({"$ref": "out.json"})),
        bad_schema("schema-look-around", json!({"pattern": "(?=a)b"})),
        bad_schema("schema-endless", json!({"$ref": "#"})),
        bad_schema("schema-multiplies", {
            let mut defs = json!({"d0": {"type": "string"}});
            for i in 1..40 {
                let below = json!({"$ref": format!("#/$defs/d{}", i - 1)});
                defs[format!("d{i}")] = json!({"oneOf": [below, below]});
            }
            json!({"$defs": defs, "$ref": "#/$defs/d39"})
        }),
        loads(
            "schema-recursive",
            schema(json!({"properties": {"children": {"items": {"$ref": "#"}}}})),
        ),
        loads(
            "schema-unused-is-not-read",
            file("schemas/unused.json", b"{"),
        ),
    ]
}
