use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;
use touchstone_agents::ports::model::EndpointHealth;
use touchstone_agents::rules::RecordedCall;
use touchstone_openwop::suite::Fixtures;

use super::*;

fn proof() -> Proof {
    Proof {
        worker: WorkerId {
            worker: "w1".to_owned(),
            epoch: "ep_1".to_owned(),
        },
        offer: "inv_1".to_owned(),
        invocation: "inv_2".to_owned(),
        token: Token::new(&[7; 32]),
    }
}

fn facts() -> Facts {
    let event = Frame::Event {
        kind: "agent.reasoned".to_owned(),
        payload: json!({"reasoning": "because"}).to_string(),
        cause: Some(0),
    };
    let ended = Frame::Ended(Ending {
        end: End::Decided {
            output: json!(["a", 0.1]),
        },
        schema_valid: Some(true),
        latency_ms: 3,
    });
    let settled = Frame::Settled {
        call: 1,
        used: Amount {
            tokens: 5,
            nano_usd: u64::MAX,
        },
    };
    let called = Frame::Called {
        call: 2,
        health: Some(EndpointHealth::Throttled),
    };
    Facts {
        proof: proof(),
        from: 4,
        frames: vec![event, settled, called, ended],
        until: Await::Durable,
    }
}

#[test]
fn claims_of_other_versions_are_read() {
    let mut claim =
        json!({"v": 1, "worker": "w1", "epoch": "ep_1", "offer": "inv_1", "claim": "claim_1"});
    let read = |claim: &serde_json::Value| read::<Claim>(claim.to_string().as_bytes()).unwrap();
    let earlier = read(&claim);
    assert!(earlier.labels.is_empty() && earlier.largest == 0);
    claim["labels"] = json!(["zone/a", "gpu"]);
    assert_eq!(read(&claim).labels.to_string(), "gpu");
}

#[test]
fn a_message_is_read_as_it_was_written() {
    let bytes = write(&facts()).unwrap();
    assert_eq!(read::<Facts>(&bytes), Ok(facts()));
    let claimed = write(&Claimed::Gone).unwrap();
    assert_eq!(read::<Claimed>(&claimed).unwrap(), Claimed::Gone);
}

#[test]
fn an_answer_may_be_as_deep_as_models_may_answer() {
    let deep = (0..json::MAX_DEPTH).fold(json!("leaf"), |inner, _| json!([inner]));
    let mut message = facts();
    message.frames = vec![Frame::Ended(Ending {
        end: End::Decided { output: deep },
        schema_valid: None,
        latency_ms: 0,
    })];
    assert_eq!(read::<Facts>(&write(&message).unwrap()), Ok(message));
}

#[test]
fn unknown_members_are_ignored_and_later_versions_may_stay_readable() {
    let later = json!({"v": 9, "min": 1, "replica": "r1", "offer": "inv_1", "more": [1]});
    let read_back = read::<Offered>(later.to_string().as_bytes()).unwrap();
    assert_eq!(read_back.replica, "r1");
}

#[rstest]
#[case(json!({"v": 2, "replica": "r1", "offer": "o"}), Unreadable::Version(2))]
#[case(json!({"v": 9, "min": 2, "replica": "r1", "offer": "o"}), Unreadable::Version(2))]
#[case(json!({"v": 0, "replica": "r1", "offer": "o"}), Unreadable::Version(0))]
#[case(json!({"v": 1, "replica": "r1"}), Unreadable::Shape("an offer"))]
#[case(json!({"v": 1, "replica": "r.1", "offer": "o"}), Unreadable::Field {
    field: "replica", problem: "must have 1 to 48 letters, digits, `-` and `_`",
})]
#[case(json!({"v": 1, "replica": "r1", "offer": ""}), Unreadable::Field {
    field: "offer", problem: "must have 1 to 200 printable ASCII characters",
})]
fn a_wrong_message_is_refused_by_field(#[case] document: Value, #[case] expected: Unreadable) {
    let found = read::<Offered>(document.to_string().as_bytes());
    assert_eq!(found, Err(expected));
}

#[test]
fn workers_without_recorded_calls_cannot_read_a_task_that_has_some() {
    let suite: Fixtures = serde_json::from_value(json!({
        "toolResponses": [{"tool": "t:x", "response": 1}],
        "memorySeed": [{"k": 1}],
    }))
    .unwrap();
    let recorded = [RecordedCall {
        tool: "t:x".to_owned(),
        args_hash: "h".to_owned(),
        failed: true,
        outcome: json!({"n": [1]}),
    }];
    for (of_suite, of_run) in [
        (None, Some(&recorded[..])),
        (Some(&suite), Some(&recorded[..])),
        (Some(&suite), None),
    ] {
        let fixtures = TaskFixtures::of(of_suite, of_run).unwrap();
        let text = serde_json::to_string(&fixtures).unwrap();
        let read: TaskFixtures = serde_json::from_str(&text).unwrap();
        assert_eq!((read.suite(), read.recorded()), (of_suite, of_run));
        // What those workers read is this member alone.
        let by_earlier = serde_json::from_str::<Fixtures>(&text);
        assert_eq!(by_earlier.is_err(), of_run.is_some(), "{text}");
    }
    assert_eq!(TaskFixtures::of(None, None), None);
}

#[test]
fn messages_beyond_the_limits_are_neither_written_nor_read() {
    let mut large = facts();
    large.frames = vec![Frame::Event {
        kind: "agent.reasoned".to_owned(),
        payload: "x".repeat(MAX_BYTES),
        cause: None,
    }];
    assert!(matches!(write(&large), Err(Unreadable::TooLarge(_))));
    let bytes = vec![b' '; MAX_BYTES + 1];
    assert_eq!(
        read::<Facts>(&bytes),
        Err(Unreadable::TooLarge(MAX_BYTES + 1))
    );
    let settled = Frame::Settled {
        call: 0,
        used: Amount::default(),
    };
    large.frames = vec![settled; MAX_FRAMES + 1];
    assert!(read::<Facts>(&write(&large).unwrap()).is_err());
}

#[test]
fn tokens_are_equal_only_if_every_byte_is_and_are_not_shown() {
    let (one, other) = (Token::new(&[7; 32]), Token::new(&[8; 32]));
    assert_eq!(one, Token::new(&[7; 32]));
    assert_ne!(one, other);
    assert_eq!(format!("{:?}", proof().token), "Token");
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read::<Offered>(&bytes);
        let _ = read::<Claim>(&bytes);
        let _ = read::<Claimed>(&bytes);
        let _ = read::<Facts>(&bytes);
        let _ = read::<Ask>(&bytes);
        let _ = read::<Beat>(&bytes);
        let _ = read::<Beaten>(&bytes);
    }

    #[test]
    fn a_damaged_message_is_read_without_a_panic(at in 0_usize..400, byte in any::<u8>()) {
        let mut bytes = write(&facts()).unwrap().to_vec();
        let last = bytes.len() - 1;
        bytes[at.min(last)] = byte;
        let _ = read::<Facts>(&bytes);
    }
}
