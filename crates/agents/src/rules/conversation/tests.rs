use rstest::rstest;
use serde_json::json;

use super::*;
use touchstone_openwop::events::args_hash;
use touchstone_openwop::schema::compile_untrusted;

/// The values a conversation borrows.
struct Setup {
    prompt: Arc<str>,
    tools: Vec<String>,
    schema: Option<CompiledSchema>,
    task: TaskId,
    input: Value,
    fixtures: Fixtures,
    limits: Limits,
    files: Vec<Attachment>,
    earlier: Vec<EarlierMessage>,
    continues: bool,
}

impl Setup {
    fn new() -> Self {
        Self {
            prompt: "Be brief.".into(),
            tools: vec!["t:search".to_owned(), "t:bare".to_owned()],
            schema: None,
            task: TaskId::from("task"),
            input: json!({"q": 1}),
            fixtures: serde_json::from_value(json!({
                "toolResponses": [
                    {"tool": "t:search", "response": {"hit": 1}},
                    {"tool": "t:search", "response": "second"},
                    {"tool": "t:hidden", "response": 3},
                ],
            }))
            .unwrap(),
            limits: Limits::default(),
            files: Vec::new(),
            earlier: Vec::new(),
            continues: false,
        }
    }

    fn open(&self) -> Conversation<'_> {
        Conversation::new(self.brief())
    }

    fn brief(&self) -> ConversationInput<'_> {
        ConversationInput {
            prompt: &self.prompt,
            tools: &self.tools,
            return_schema: self.schema.as_ref(),
            task: &self.task,
            input: &self.input,
            files: &self.files,
            earlier: &self.earlier,
            continues: self.continues,
            source: ToolSource::Fixtures(Some(&self.fixtures)),
            temperature: None,
            max_tokens: None,
            limits: self.limits,
        }
    }
}

fn call(tool: &str) -> ToolCall {
    ToolCall {
        id: String::new(),
        tool: tool.to_owned(),
        arguments: Ok(json!({})),
    }
}

fn calls(tools: &[&str]) -> ModelReply {
    ModelReply {
        tool_calls: tools.iter().map(|tool| call(tool)).collect(),
        ..ModelReply::default()
    }
}

fn text(text: &str) -> ModelReply {
    ModelReply {
        text: Some(text.to_owned()),
        ..ModelReply::default()
    }
}

fn failed(reason: FailureReason) -> Next {
    Next::Failed {
        reason,
        output: None,
        schema_valid: None,
    }
}

#[test]
fn a_conversation_starts_with_the_prompt_the_memory_and_the_input() {
    let mut setup = Setup::new();
    setup.fixtures.memory_seed =
        serde_json::from_value(json!([{"b": 1, "a": 2}, {"c": 3}])).unwrap();
    let conversation = setup.open();
    let memory = "Memory (read-only snapshot, one entry a line):\n{\"a\":2,\"b\":1}\n{\"c\":3}";
    assert_eq!(
        conversation.request().messages,
        [
            Message::System("Be brief.".into()),
            Message::System(memory.into()),
            Message::User("{\"q\":1}".into()),
        ]
    );
    assert_eq!(conversation.request().tools, setup.tools);
}

#[test]
fn a_string_input_is_sent_unquoted() {
    let mut setup = Setup::new();
    setup.input = json!("say \"hi\"");
    let conversation = setup.open();
    let last = conversation.request().messages.last();
    assert_eq!(last, Some(&Message::User("say \"hi\"".into())));
}

#[test]
fn a_text_reply_is_the_decision_if_there_is_no_schema() {
    let setup = Setup::new();
    let next = setup.open().step(text(" yes ")).next;
    let expected = Next::Decided {
        output: json!(" yes "),
        schema_valid: None,
    };
    assert_eq!(next, expected);
}

#[test]
fn fixtures_answer_in_order_and_the_last_one_repeats() {
    let setup = Setup::new();
    let mut conversation = setup.open();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let step = conversation.step(calls(&["t:search"]));
        assert_eq!(step.next, Next::Call);
        seen.extend(step.tools.into_iter().map(|(_, outcome)| outcome));
    }
    let answered = |value| ToolOutcome::Answered(value);
    assert_eq!(
        seen,
        [
            answered(json!({"hit": 1})),
            answered(json!("second")),
            answered(json!("second"))
        ]
    );
    let last = conversation.request().messages.last().unwrap();
    assert!(matches!(last, Message::Tool { content, .. } if content == "second"));
}

#[rstest]
#[case::off_the_list("t:hidden", ToolOutcome::Forbidden)]
#[case::made_up("rm -rf", ToolOutcome::Forbidden)]
#[case::without_a_fixture("t:bare", ToolOutcome::FixtureMissing)]
fn the_agent_learns_of_a_call_that_must_not_run(#[case] tool: &str, #[case] expected: ToolOutcome) {
    let setup = Setup::new();
    let mut conversation = setup.open();
    let step = conversation.step(calls(&[tool]));
    assert_eq!(step.next, Next::Call);
    assert_eq!(step.tools[0].1, expected);
    let Some(Message::Tool { content, .. }) = conversation.request().messages.last() else {
        panic!("the model is told");
    };
    assert!(content.contains("\"error\""), "{content}");
}

#[test]
fn invalid_json_arguments_do_not_consume_a_fixture() {
    let setup = Setup::new();
    let mut conversation = setup.open();
    let mut broken = calls(&["t:search"]);
    broken.tool_calls[0].arguments = Err("{oops".to_owned());
    let step = conversation.step(broken);
    assert_eq!(step.tools[0].1, ToolOutcome::InvalidArguments);
    let step = conversation.step(calls(&["t:search"]));
    assert_eq!(step.tools[0].1, ToolOutcome::Answered(json!({"hit": 1})));
}

#[test]
fn call_ids_are_unique_in_the_conversation_whatever_the_provider_says() {
    let setup = Setup::new();
    let mut conversation = setup.open();
    let mut ids = HashSet::new();
    for given in ["call_0", "call_0", "", "with space", "call_2_1"] {
        let mut reply = calls(&["t:search", "t:search"]);
        for call in &mut reply.tool_calls {
            call.id = given.to_owned();
        }
        for (call, _) in conversation.step(reply).tools {
            assert!(!call.id.is_empty() && !call.id.contains(' '));
            assert!(ids.insert(call.id));
        }
    }
    assert_eq!(ids.len(), 10);
    assert!(ids.contains("call_0"), "a usable id is kept");
}

#[test]
fn an_endless_loop_ends_at_the_turn_limit() {
    let mut setup = Setup::new();
    setup.limits.turns = 3;
    let mut conversation = setup.open();
    for _ in 0..2 {
        assert_eq!(conversation.step(calls(&["t:search"])).next, Next::Call);
    }
    let last = conversation.step(calls(&["t:search"]));
    assert_eq!(last.next, failed(FailureReason::TurnLimit));
    assert_eq!(last.tools.len(), 1, "the last turn's calls are recorded");
}

#[test]
fn calls_beyond_the_limit_do_not_run() {
    let mut setup = Setup::new();
    setup.limits.tool_calls = 2;
    let step = setup.open().step(calls(&["t:search"; 5]));
    assert_eq!(step.next, failed(FailureReason::ToolCallLimit));
    assert_eq!(step.tools.len(), 2);
}

#[rstest]
#[case::nothing(ModelReply::default(), failed(FailureReason::EmptyAnswer))]
#[case::blank(text(" \n"), failed(FailureReason::EmptyAnswer))]
#[case::refused(ModelReply { refused: true, ..text("no") }, Next::Failed {
    reason: FailureReason::Refused, output: Some(json!("no")), schema_valid: None })]
#[case::cut(ModelReply { truncated: true, ..calls(&["t:search"]) }, failed(FailureReason::Truncated))]
fn replies_without_a_decision_fail(#[case] reply: ModelReply, #[case] expected: Next) {
    let setup = Setup::new();
    let step = setup.open().step(reply);
    assert_eq!(step.next, expected);
    assert!(step.tools.is_empty(), "nothing is carried out");
}

#[rstest]
#[case("{\"n\":1}", Next::Decided { output: json!({"n": 1}), schema_valid: Some(true) })]
#[case("{\"n\":\"x\"}", Next::Failed { reason: FailureReason::OutputSchemaViolation,
    output: Some(json!({"n": "x"})), schema_valid: Some(false) })]
#[case("n is 1", Next::Failed { reason: FailureReason::OutputNotJson,
    output: Some(json!("n is 1")), schema_valid: Some(false) })]
fn with_a_schema_the_answer_must_satisfy_it(#[case] answer: &str, #[case] expected: Next) {
    let mut setup = Setup::new();
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    setup.schema = Some(compile_untrusted(&schema).unwrap());
    let mut conversation = setup.open();
    assert_eq!(
        conversation.request().response_schema,
        Some(ResponseSchema::Read(&schema))
    );
    assert_eq!(conversation.step(text(answer)).next, expected);
}

#[test]
fn the_request_size_grows_with_the_transcript() {
    let setup = Setup::new();
    let mut conversation = setup.open();
    let before = conversation.request_octets();
    conversation.step(calls(&["t:search"]));
    let after = conversation.request_octets();
    assert!(after > before + "{\"hit\":1}".len());
}

/// The roles and texts of a request.
fn said(conversation: &Conversation<'_>) -> Vec<(&'static str, String)> {
    let messages = conversation.request().messages.iter();
    let part = |message: &Message| match message {
        Message::System(text) => ("system", text.to_string()),
        Message::User(text) | Message::UserWithFiles { text, .. } => ("user", text.to_string()),
        Message::Assistant { text, .. } => ("assistant", text.clone().unwrap_or_default()),
        Message::Tool { content, .. } => ("tool", content.clone()),
    };
    messages.map(part).collect()
}

#[test]
fn earlier_messages_are_sent_between_the_instructions_and_the_input() {
    let mut setup = Setup::new();
    setup.earlier = serde_json::from_value(json!([
        {"role": "system", "content": "Today is Monday."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
    ]))
    .unwrap();
    let conversation = setup.open();
    let found = said(&conversation);
    let found: Vec<(&str, &str)> = found.iter().map(|(r, t)| (*r, t.as_str())).collect();
    assert_eq!(
        found,
        [
            ("system", "Be brief."),
            ("system", "Today is Monday."),
            ("user", "Hi"),
            ("assistant", "Hello"),
            ("user", r#"{"q":1}"#),
        ]
    );
}

#[test]
fn a_reply_of_the_user_continues_after_the_answer_as_the_model_wrote_it() {
    let mut setup = Setup::new();
    setup.continues = true;
    setup.schema = Some(compile_untrusted(&json!({"type": "object"})).unwrap());
    let mut conversation = setup.open();
    let before = conversation.request_octets();
    let step = conversation.step(text("```json\n{\"a\": 1}\n```"));
    assert!(matches!(step.next, Next::Decided { .. }), "{:?}", step.next);
    assert_eq!(conversation.reply("And now?"), Next::Call);
    let found = said(&conversation);
    assert_eq!(
        &found[2..],
        [
            ("assistant", "```json\n{\"a\": 1}\n```".to_owned()),
            ("user", "And now?".to_owned()),
        ]
    );
    assert!(conversation.request_octets() > before);
    assert_eq!(conversation.request().task.unwrap().turn, 1);
}

#[test]
fn model_turns_are_limited_for_each_message_of_the_user() {
    let mut setup = Setup::new();
    setup.continues = true;
    setup.limits.turns = 2;
    let mut conversation = setup.open();
    for _ in 0..3 {
        assert_eq!(conversation.step(calls(&["t:search"])).next, Next::Call);
        let step = conversation.step(text("done"));
        assert!(matches!(step.next, Next::Decided { .. }));
        assert_eq!(conversation.reply("more"), Next::Call);
    }
    conversation.step(calls(&["t:search"]));
    let step = conversation.step(calls(&["t:search"]));
    assert!(
        matches!(
            step.next,
            Next::Failed {
                reason: FailureReason::TurnLimit,
                ..
            }
        ),
        "{:?}",
        step.next
    );
}

#[test]
fn a_conversation_that_grows_too_large_fails() {
    let mut setup = Setup::new();
    setup.continues = true;
    setup.limits.octets = 1_000;
    let mut conversation = setup.open();
    conversation.step(text("done"));
    let next = conversation.reply(&"a".repeat(2_000));
    assert!(
        matches!(
            next,
            Next::Failed {
                reason: FailureReason::ContextOverflow,
                ..
            }
        ),
        "{next:?}"
    );
}

#[test]
fn recorded_calls_answer_instead_of_fixtures_and_another_call_fails_the_task() {
    let mut setup = Setup::new();
    setup.tools.push("aaaf-worker:stock".to_owned());
    setup.fixtures = serde_json::from_value(json!({"toolResponses": [
        {"tool": "t:search", "response": "of the suite"},
        {"tool": "aaaf-worker:stock", "response": "of the worker"},
    ]}))
    .unwrap();
    let recorded =
        [(false, json!({"hit": 1})), (true, json!("no"))].map(|(failed, outcome)| RecordedCall {
            tool: "t:search".to_owned(),
            args_hash: args_hash(&json!({})).unwrap(),
            failed,
            outcome,
        });
    let mut conversation = Conversation::new(ConversationInput {
        source: ToolSource::Recorded {
            calls: &recorded,
            fixtures: Some(&setup.fixtures),
        },
        ..setup.brief()
    });
    let step = conversation.step(calls(&["t:search", "aaaf-worker:stock", "t:search"]));
    assert_eq!(step.next, Next::Call);
    let outcomes: Vec<ToolOutcome> = step.tools.into_iter().map(|(_, it)| it).collect();
    let expected = [
        ToolOutcome::Answered(json!({"hit": 1})),
        ToolOutcome::Answered(json!("of the worker")),
        ToolOutcome::Failed(json!("no")),
    ];
    assert_eq!(outcomes, expected);
    let step = conversation.step(calls(&["t:hidden", "t:search", "t:search"]));
    assert_eq!(step.next, failed(FailureReason::CallNotRecorded));
    let outcomes: Vec<ToolOutcome> = step.tools.into_iter().map(|(_, it)| it).collect();
    assert_eq!(
        outcomes,
        [ToolOutcome::Forbidden, ToolOutcome::FixtureMissing]
    );
}
