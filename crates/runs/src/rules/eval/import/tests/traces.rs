//! OpenTelemetry spans as tasks.

use super::*;

fn attributes(pairs: &[(&str, &str)]) -> Value {
    pairs
        .iter()
        .map(|(key, text)| json!({"key": key, "value": {"stringValue": text}}))
        .collect()
}

fn span(trace: &str, start: u64, pairs: &[(&str, &str)]) -> Value {
    json!({
        "traceId": trace, "startTimeUnixNano": start.to_string(),
        "endTimeUnixNano": (start + 5).to_string(), "attributes": attributes(pairs),
    })
}

fn export(spans: &[Value]) -> String {
    json!({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).to_string()
}

#[test]
fn a_trace_becomes_a_task_with_its_tool_results() {
    let question = r#"[{"role": "system", "parts": [{"type": "text", "content": "Be kind."}]}, {"role": "user", "parts": [{"type": "text", "content": "Where is my order?"}]}]"#;
    let call = r#"[{"role": "assistant", "parts": [{"type": "tool_call", "name": "orders", "arguments": {}}]}]"#;
    let answer = r#"[{"role": "assistant", "parts": [{"type": "text", "content": "In Lisbon."}]}]"#;
    let spans = [
        span(
            "a1",
            30,
            &[
                ("gen_ai.operation.name", "chat"),
                ("gen_ai.output.messages", answer),
            ],
        ),
        span(
            "a1",
            10,
            &[
                ("gen_ai.operation.name", "chat"),
                ("gen_ai.input.messages", question),
                ("gen_ai.output.messages", call),
            ],
        ),
        span(
            "a1",
            20,
            &[
                ("gen_ai.operation.name", "execute_tool"),
                ("gen_ai.tool.name", "orders"),
                ("gen_ai.tool.call.result", r#"{"city": "Lisbon"}"#),
            ],
        ),
        span("b2", 40, &[("http.method", "GET")]),
    ];
    let it = imported(&export(&spans), Format::Otel);
    let task = &it.suite["tasks"][0];
    assert_eq!(task["taskId"], "a1");
    assert_eq!(task["input"], "Where is my order?");
    assert_eq!(task["expected"], exact("In Lisbon."));
    assert_eq!(
        task["fixtures"]["toolResponses"],
        json!([{"tool": "orders", "response": {"city": "Lisbon"}}])
    );
    assert_eq!(it.tools, ["orders"]);
    assert_lost(
        &it,
        &[
            "a trace without a user message",
            "check that the recorded answers",
        ],
    );
}

#[test]
fn earlier_conventions_are_read_too() {
    let numbered = [
        ("gen_ai.prompt.0.role", "system"),
        ("gen_ai.prompt.0.content", "Be kind."),
        ("gen_ai.prompt.1.role", "user"),
        ("gen_ai.prompt.1.content", "Hi"),
        ("gen_ai.completion.0.content", "Hello"),
    ];
    let mut with_events = span("b2", 20, &[("gen_ai.operation.name", "chat")]);
    with_events["events"] = json!([
        {"name": "gen_ai.user.message", "attributes": attributes(&[("content", "Bye")])},
        {"name": "gen_ai.choice", "attributes": attributes(&[("message", r#"{"content": "See you"}"#)])},
    ]);
    let lines = format!(
        "{}\n{}\n",
        export(&[span("a1", 10, &numbered)]),
        export(&[with_events])
    );
    let it = imported(&lines, Format::Otel);
    assert_eq!(
        tasks(&it),
        [
            ("a1".to_owned(), json!("Hi"), exact("Hello")),
            ("b2".to_owned(), json!("Bye"), exact("See you")),
        ]
    );
}
