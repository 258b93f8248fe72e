//! Nine configurations of promptfoo as people write them: all of them import, and what is lost is
//! named.

use super::*;
use crate::rules::eval::import::pack;

fn inputs(imported: &Imported) -> Vec<Value> {
    tasks(imported)
        .into_iter()
        .map(|(_, input, _)| input)
        .collect()
}

#[test]
fn a_first_configuration() {
    let it = imported(
        "
# yaml-language-server: $schema=https://promptfoo.dev/config-schema.json
description: Translations
prompts:
  - 'Translate to {{language}}: {{text}}'
  - 'You are a translator. Say this in {{language}}: {{text}}'
providers:
  - openai:gpt-4o-mini
  - id: anthropic:messages:claude-haiku
    config: {temperature: 0}
tests:
  - vars: {language: French, text: Good morning}
    assert:
      - {type: icontains, value: bonjour}
      - {type: latency, threshold: 3000}
  - vars: {language: [German, Dutch], text: Good morning}
    assert:
      - {type: similar, value: Guten Morgen, threshold: 0.8}
      - {type: icontains-any, value: [morgen, goedemorgen]}
",
        Format::Promptfoo,
    );
    assert_eq!(tasks(&it).len(), 3);
    assert_eq!(it.agents.len(), 2);
    assert_lost(
        &it,
        &["`providers` (openai:gpt-4o-mini, anthropic:messages:claude-haiku)"],
    );
}

#[test]
fn tests_in_a_table() {
    let files = Memory::of([
        (
            "prompts.txt",
            "Answer: {{question}}\n---\nBe brief. {{question}}\n",
        ),
        (
            "tests.csv",
            "question,__expected,__expected2,__description\nCapital of France?,Paris,,capital\n2+2?,contains: 4,latency(500):,sum\nJoke?,grade: is funny,\"fn: output.length < 100\",joke\n",
        ),
    ]);
    let text =
        "prompts: file://prompts.txt\nproviders: openai:gpt-4o-mini\ntests: file://tests.csv\n";
    let it = imported_with(text, Format::Promptfoo, &files);
    let found = tasks(&it);
    assert_eq!(
        found[0],
        (
            "capital".to_owned(),
            json!({"question": "Capital of France?"}),
            exact("Paris")
        )
    );
    assert_eq!(
        assertions(&it, "sum"),
        json!([{"type": "contains", "value": "4"}, {"type": "latency", "maxMs": 500}])
    );
    assert_eq!(found[2].2["kind"], "rubric");
    let code = it
        .losses
        .iter()
        .find(|it| it.what.contains("javascript"))
        .unwrap();
    assert_eq!(code.first, "tests.csv row 4 (joke)");
    let labels: Vec<&str> = it.agents.iter().map(|it| it.label.as_str()).collect();
    assert_eq!(labels, ["prompts-1", "prompts-2"]);
}

#[test]
fn structured_answers() {
    let files = Memory::of([("schema.json", r#"{"type": "object", "required": ["city"]}"#)]);
    let text = r#"
prompts: ["Give city and country of {{place}} as JSON."]
providers: [openai:chat:gpt-4o]
defaultTest:
  options:
    transform: JSON.parse(output)
  assert:
    - type: is-json
      value: file://schema.json
tests:
  - vars: {place: Big Ben}
    assert:
      - {type: javascript, value: "output.city === 'London'"}
      - {type: contains-json}
  - vars: {place: Eiffel Tower}
    assert: [{type: equals, value: {city: Paris, country: France}}]
"#;
    let it = imported_with(text, Format::Promptfoo, &files);
    let schema = json!({"type": "is-json", "schema": {"type": "object", "required": ["city"]}});
    assert_eq!(assertions(&it, "task-1"), json!([schema]));
    assert_eq!(
        assertions(&it, "task-2"),
        json!([{"type": "equals", "value": {"city": "Paris", "country": "France"}}, schema])
    );
    assert_lost(
        &it,
        &[
            "`transform`, which changes the answer",
            "\"javascript\"",
            "\"contains-json\"",
        ],
    );
}

#[test]
fn scenarios_of_languages_and_phrases() {
    let it = imported(
        "
prompts: ['Translate into {{language}}: {{input}}']
providers: [openai:gpt-4o-mini]
scenarios:
  - config:
      - vars: {language: Spanish, hello: Hola, bye: Adiós}
      - vars: {language: French, hello: Bonjour, bye: Au revoir}
    tests:
      - description: Hello
        vars: {input: Hello}
        assert: [{type: icontains, value: '{{hello}}'}]
      - description: Bye
        vars: {input: Bye}
        assert: [{type: icontains, value: '{{bye}}'}]
",
        Format::Promptfoo,
    );
    let ids: Vec<String> = tasks(&it).into_iter().map(|(id, ..)| id).collect();
    assert_eq!(ids, ["hello", "bye", "hello-2", "bye-2"]);
    assert_eq!(
        assertions(&it, "bye-2"),
        json!([{"type": "icontains", "value": "Au revoir"}])
    );
}

#[test]
fn chat_prompts_and_variables_in_files() {
    let files = Memory::of([
        (
            "prompts/chat.json",
            r#"[{"role": "system", "content": "Summarize."}, {"role": "user", "content": "{{article}}"}]"#,
        ),
        ("articles/a.txt", "Rain in Lisbon.\n"),
        ("articles/b.txt", "Sun in Porto.\n"),
    ]);
    let text = "
prompts: [file://prompts/chat.json, file://prompts/make.py:build]
providers: [python:provider.py]
tests:
  - vars: {article: file://articles/*.txt}
    assert:
      - {type: llm-rubric, value: 'Summarizes: {{article}}'}
      - {type: cost, threshold: 0.002}
";
    let it = imported_with(text, Format::Promptfoo, &files);
    assert_eq!(
        inputs(&it),
        [
            json!({"article": "Rain in Lisbon."}),
            json!({"article": "Sun in Porto."})
        ]
    );
    assert_eq!(it.agents.len(), 1);
    assert_eq!(it.agents[0].prompt, "Summarize.\n\n{{article}}");
    assert_lost(&it, &["a prompt that is made by a script"]);
}

#[test]
fn sets_weights_metrics_and_thresholds() {
    let it = imported(
        "
prompts: ['Describe {{product}}.']
providers: [openai:gpt-4o]
tests:
  - vars: {product: a kettle}
    threshold: 0.6
    assert:
      - type: assert-set
        threshold: 0.5
        metric: Wording
        assert:
          - {type: contains, value: kettle}
          - {type: not-regex, value: '(?i)cheap|best'}
      - {type: levenshtein, value: A kettle boils water., threshold: 40, weight: 2}
      - {type: model-graded-closedqa, value: names a use}
",
        Format::Promptfoo,
    );
    assert_eq!(
        it.scoring.as_ref().unwrap()["tasks"]["task-1"],
        json!({"threshold": 0.6, "assertions": [
            {"type": "expected"},
            {"type": "all", "threshold": 0.5, "metric": "Wording", "assertions": [
                {"type": "contains", "value": "kettle"},
                {"type": "regex", "pattern": "(?i)cheap|best", "not": true}]},
            {"type": "levenshtein", "value": "A kettle boils water.", "maxDistance": 40, "weight": 2.0}]})
    );
}

#[test]
fn templates_of_assertions_and_defaults_in_files() {
    let files = Memory::of([
        (
            "defaults.yaml",
            "vars: {tone: friendly}\nassert: [{type: not-is-refusal}]\n",
        ),
        (
            "cases/one.yaml",
            "- vars: {topic: tea}\n  assert: [{type: contains, value: tea}]\n",
        ),
        (
            "cases/two.yaml",
            "vars: {topic: milk}\nassert: [{type: contains, value: milk}]\n",
        ),
        (
            "more.jsonl",
            "{\"vars\": {\"topic\": \"salt\"}, \"assert\": [{\"type\": \"contains\", \"value\": \"salt\"}]}\n",
        ),
    ]);
    let text = r##"
prompts: ["Write about {{topic}}, {{tone}}."]
providers: [ollama:chat:llama3.2]
assertionTemplates:
  capital: {type: regex, value: "^[A-Z]"}
defaultTest: file://defaults.yaml
tests:
  - file://cases/*.yaml
  - file://more.jsonl
  - vars: {topic: bread}
    assert:
      - $ref: "#/assertionTemplates/capital"
"##;
    let it = imported_with(text, Format::Promptfoo, &files);
    let topics: Vec<Value> = inputs(&it)
        .into_iter()
        .map(|it| it["topic"].clone())
        .collect();
    assert_eq!(topics, ["tea", "milk", "salt", "bread"]);
    assert_eq!(
        assertions(&it, "task-4"),
        json!([{"type": "regex", "pattern": "^[A-Z]"}, {"type": "refusal", "not": true}])
    );
}

#[test]
fn retrieval_with_context_in_variables() {
    let it = imported(
        r#"
prompts:
  - |
    Answer from the context only.
    Context: {{context}}
    Question: {{query}}
providers:
  - id: http
    config: {url: "https://example.com/ask"}
tests:
  - vars:
      query: How long is parental leave?
      context: "Parental leave takes {{weeks}} weeks."
      weeks: 16
    assert:
      - {type: contains, value: "{{weeks}} weeks"}
      - {type: factuality, value: "Parental leave takes 16 weeks."}
      - {type: context-faithfulness, threshold: 0.9}
      - {type: answer-relevance, threshold: 0.9}
"#,
        Format::Promptfoo,
    );
    assert_eq!(inputs(&it)[0]["context"], "Parental leave takes 16 weeks.");
    assert_eq!(
        assertions(&it, "task-1"),
        json!([
            {"type": "contains", "value": "16 weeks"},
            {"type": "factuality", "reference": "Parental leave takes 16 weeks."},
            {"type": "faithfulness", "min": 0.9, "graded": true,
                "context": "Parental leave takes 16 weeks."},
            {"type": "answer-relevance", "min": 0.9, "graded": true},
        ])
    );
}

#[test]
fn prompts_only_for_looking_at_the_answers() {
    let it = imported(
        r#"{"prompts": [{"label": "Short", "raw": "Say {{word}}."}, {"label": "Long", "raw": "Please say the word {{word}}."}],
            "targets": [{"id": "openai:responses:gpt-4o"}], "outputPath": "out.html",
            "tests": [{"vars": {"word": "yes"}}, {"vars": {"word": "no"}}]}"#,
        Format::Promptfoo,
    );
    assert_eq!(tasks(&it).len(), 2);
    assert_lost(&it, &["\"outputPath\"", "a test without assertions"]);
    let files = pack::files(&it);
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "evals/x.json",
            "pack.json",
            "prompts/long.md",
            "prompts/short.md"
        ]
    );
    let manifest: Value = serde_json::from_slice(&files["pack.json"]).unwrap();
    assert_eq!(manifest["agents"][0]["agentId"], "vendor.acme.x.short");
}
