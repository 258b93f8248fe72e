//! An untrusted agent card, with signatures. Every axis is between 0 and 100, the same card gets
//! the same score, and an unsigned card does not count as signed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_agent_cards::rules::points::Points;
use touchstone_agent_cards::rules::signature::{KeySetAnswer, Keys, State};
use touchstone_agent_cards::rules::{Card, Context, Live, score, signature};
use touchstone_fuzz::now;

fuzz_target!(|data: &[u8]| {
    let mut keys = Keys::default();
    // The card also serves as every key set it names, so that key sets are fuzzed, too.
    if let Ok(card) = Card::parse(data) {
        for url in signature::needed_key_sets(&card, &keys) {
            keys.key_sets.insert(
                url,
                KeySetAnswer::Answered {
                    status: 200,
                    body: data.to_vec(),
                },
            );
        }
    }
    let context = Context {
        now: now(),
        keys: Some(&keys),
        live: Live::Disabled,
    };
    let found = score(data, &context);
    let most = Points::whole(100);
    assert!(found.compliance.total <= most && found.trust.total <= most);
    assert!(found.availability.total.is_none());
    assert!(
        found
            .trust
            .signature_results
            .iter()
            .all(|it| it.state != State::Valid),
        "an unsigned card counts as signed"
    );
    let document = serde_json::to_string(&found).expect("a document");
    assert_eq!(
        document,
        serde_json::to_string(&score(data, &context)).expect("a document")
    );
});
