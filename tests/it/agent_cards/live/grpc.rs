//! Responses over gRPC, and the test message in gRPC.

use rstest::rstest;
use serde_json::json;
use touchstone_agent_cards::rules::live::{
    Body, Headers, LiveRequests, NoReply, Reply, TEST_TEXT, fails_well, grpc, judge,
};
use touchstone_agent_cards::rules::transport::Transport;

use super::{asked, open_headers, probe, scored_of, seen};
use crate::agent_cards::fixture::Change::{Cut, Set};
use crate::agent_cards::fixture::{card, changed};

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0], length.as_slice(), message].concat()
}

fn called(status: &str, body: Vec<u8>) -> Reply {
    Reply {
        status: 200,
        headers: [("content-type", "application/grpc+proto")]
            .into_iter()
            .collect(),
        body: Body::Whole(body),
        trailers: [("grpc-status", status)].into_iter().collect(),
        elapsed_ms: 9,
    }
}

/// `responds`, `works`, `structured`, `typed`, `auth_required`.
#[rstest]
#[case::message(called("0", framed(&[0x12, 2, 0x0a, 0])), [true, true, true, true, false])]
#[case::task(called("0", framed(&[0x0a, 0])), [true, true, true, true, false])]
#[case::another_field(called("0", framed(&[0x1a, 0])), [true, true, false, true, false])]
#[case::empty(called("0", framed(&[])), [true, true, false, true, false])]
#[case::no_frame(called("0", vec![]), [true, true, false, true, false])]
#[case::cut_frame(called("0", vec![0, 0, 0, 0, 9, 1]), [true, true, false, true, false])]
#[case::compressed(called("0", vec![1, 0, 0, 0, 2, 0x0a, 0]), [true, true, false, true, false])]
#[case::not_protobuf(called("0", framed(b"\x0a\xff")), [true, true, false, true, false])]
#[case::unimplemented(called("12", vec![]), [true, false, false, true, false])]
#[case::unauthenticated(called("16", vec![]), [true, false, false, true, true])]
#[case::denied(called("7", vec![]), [true, false, false, true, true])]
#[case::no_status(Reply { trailers: Headers::default(), ..called("0", framed(&[0x0a, 0])) }, [false, false, false, false, false])]
#[case::odd_status(called("ok", framed(&[0x0a, 0])), [false, false, false, false, false])]
#[case::with_the_headers(Reply { headers: [("content-type", "application/grpc"), ("grpc-status", "5")].into_iter().collect(), trailers: Headers::default(), ..called("0", vec![]) }, [true, false, false, true, false])]
#[case::wrong_type(Reply { headers: open_headers().into_iter().collect(), ..called("0", framed(&[0x0a, 0])) }, [true, true, true, false, false])]
fn grpc_replies_are_judged_by_status_and_message(
    #[case] reply: Reply,
    #[case] expected: [bool; 5],
) {
    let judged = judge(Transport::Grpc, &probe(Ok(reply)));
    let found = [
        judged.responds,
        judged.works,
        judged.structured,
        judged.typed,
        judged.auth_required,
    ];
    assert_eq!(found, expected);
}

#[test]
fn grpc_fails_with_a_status_that_says_why() {
    let well: Vec<u32> = (0..=17)
        .filter(|status| {
            fails_well(
                Transport::Grpc,
                &probe(Ok(called(&status.to_string(), vec![]))),
            )
        })
        .collect();
    assert_eq!(well, [3, 5, 7, 9, 12, 16]);
}

#[test]
fn an_agent_may_prefer_grpc() {
    let card = changed(
        card(),
        &[
            Set("/preferredTransport", json!("GRPC")),
            Cut("/additionalInterfaces"),
        ],
    );
    let asked = LiveRequests {
        message: probe(Ok(called("0", framed(&[0x12, 2, 0x0a, 0])))),
        preflight: Err(NoReply::NotSent),
        error: probe(Ok(called("5", vec![]))),
        ..asked()
    };
    let of = scored_of(&card, &seen(asked.clone()));
    assert_eq!(of.availability.total.unwrap().to_string(), "100");
    let broken = LiveRequests {
        message: probe(Ok(called("13", vec![]))),
        ..asked
    };
    let of = scored_of(&card, &seen(broken)).availability;
    assert!(!of.breakdown.as_ref().unwrap().primary_endpoint.has_cors);
    // Responds 30, fast 10, TLS 5, content type 5, errors 5.
    assert_eq!(of.total.unwrap().to_string(), "55");
}

#[test]
fn the_message_over_grpc_is_what_the_service_defines() {
    let text = TEST_TEXT.as_bytes();
    let part = [&[0x0a, u8::try_from(text.len()).unwrap()], text].concat();
    let message = [
        b"\x0a\x01m\x20\x01\x2a".as_slice(),
        &[u8::try_from(part.len()).unwrap()],
        &part,
    ]
    .concat();
    let configuration = b"\x12\x0e\x0a\x0atext/plain\x20\x01";
    let request = [
        &[0x0a, u8::try_from(message.len()).unwrap()],
        message.as_slice(),
        configuration,
    ]
    .concat();
    assert_eq!(grpc::message_request("m"), framed(&request));
    assert_eq!(grpc::task_request("x"), framed(b"\x0a\x07tasks/x"));
    let url = grpc::method_url(
        &"https://x.example:50051/a?b#c".parse().unwrap(),
        grpc::SEND_MESSAGE,
    );
    assert_eq!(
        url.as_str(),
        "https://x.example:50051/a2a.v1.A2AService/SendMessage"
    );
}
