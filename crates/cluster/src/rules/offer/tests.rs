use proptest::prelude::*;
use rstest::rstest;

use super::*;
use touchstone_agents::rules::worker_labels::WorkerLabels;

const HOLD: Duration = Duration::from_secs(8);

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn worker(name: &str) -> WorkerId {
    WorkerId {
        worker: name.to_owned(),
        epoch: format!("epoch_{name}"),
    }
}

fn claim(name: &str, claim: &str) -> Claim {
    Claim {
        worker: worker(name),
        offer: "offer".to_owned(),
        claim: claim.to_owned(),
        labels: WorkerLabels::default(),
        largest: 0,
    }
}

fn proof(name: &str, granted: &Granted) -> Proof {
    Proof {
        worker: worker(name),
        offer: "offer".to_owned(),
        invocation: granted.invocation.clone(),
        token: granted.token.clone(),
    }
}

fn held(granted: &Granted) -> Held {
    Held {
        offer: "offer".to_owned(),
        invocation: granted.invocation.clone(),
        token: granted.token.clone(),
    }
}

fn mint(number: u8) -> impl FnOnce() -> (String, Token) {
    move || (format!("inv_{number}"), Token::new(&[number; 32]))
}

/// An offer that `w1` has claimed at second 0.
fn claimed() -> (Offer, Granted) {
    let mut offer = Offer::new(HOLD, at(0));
    let granted = offer.claim(&claim("w1", "c1"), at(0), mint(1)).unwrap();
    (offer, granted)
}

#[test]
fn one_worker_holds_a_task() {
    let (mut offer, granted) = claimed();
    assert_eq!(offer.claim(&claim("w2", "c2"), at(1), mint(2)), None);
    assert_eq!(offer.claim(&claim("w2", "c1"), at(1), mint(2)), None);
    assert_eq!(offer.claim(&claim("w1", "c3"), at(1), mint(2)), None);
    assert_eq!(offer.invocation(), Some(&*granted.invocation));
}

#[test]
fn a_repeated_claim_gets_the_same_answer_until_facts_arrive() {
    let (mut offer, granted) = claimed();
    let again = offer.claim(&claim("w1", "c1"), at(1), mint(2));
    assert_eq!(again, Some(granted.clone()));
    offer.receive(&proof("w1", &granted), 0, 1);
    assert_eq!(offer.claim(&claim("w1", "c1"), at(1), mint(2)), None);
}

#[test]
fn a_silent_holder_loses_the_task_after_hold_and_margin() {
    let (mut offer, granted) = claimed();
    assert!(!offer.is_overdue(at(8)), "the margin");
    assert!(offer.is_overdue(at(9)));
    let keep = Verdict::Keep { hold_ms: 8_000 };
    let verdict = offer.beat(&worker("w1"), &held(&granted), at(5), Some(true));
    assert_eq!(verdict, keep);
    assert!(!offer.is_overdue(at(13)));
    assert!(offer.is_overdue(at(14)));
}

#[test]
fn an_owner_that_must_not_call_keeps_the_attempt_and_pauses_the_worker() {
    let (mut offer, granted) = claimed();
    let held = held(&granted);
    let mut beat = |now, may_call| offer.beat(&worker("w1"), &held, now, may_call);
    assert_eq!(beat(at(8), Some(false)), Verdict::Pause);
    assert_eq!(beat(at(9), None), Verdict::Drop);
    assert!(!offer.is_overdue(at(16)));
}

#[test]
fn nothing_of_a_superseded_attempt_counts() {
    let (mut offer, first) = claimed();
    let old = proof("w1", &first);
    assert_eq!(offer.receive(&old, 0, 2), Reception::Record { skip: 0 });
    let estimate = Amount {
        tokens: 3,
        nano_usd: 4,
    };
    let reserve = Question::Reserve(estimate);
    assert_eq!(offer.ask(&old, 1, reserve), Asked::New);
    assert!(offer.answered(&first.invocation, 1, Answer::Granted));
    let lost = offer.lose(at(9), at(0)).unwrap();
    assert_eq!(lost.reserved, [estimate]);
    assert_eq!(offer.lose(at(9), at(0)), None);

    let second = offer.claim(&claim("w2", "c2"), at(10), mint(2)).unwrap();
    assert_ne!(first.invocation, second.invocation);
    assert_eq!(offer.receive(&old, 2, 1), Reception::Superseded);
    assert_eq!(offer.ask(&old, 2, Question::Tool), Asked::Superseded);
    assert!(!offer.answered(&first.invocation, 1, Answer::Granted));
    let verdict = offer.beat(&worker("w1"), &held(&first), at(10), Some(true));
    assert_eq!(verdict, Verdict::Drop);
    let stolen = proof("w1", &second);
    assert_eq!(offer.receive(&stolen, 0, 1), Reception::Superseded);
    let mut forged = proof("w2", &second);
    forged.token = Token::new(&[9; 32]);
    assert_eq!(offer.receive(&forged, 0, 1), Reception::Superseded);
    let new = proof("w2", &second);
    assert_eq!(offer.receive(&new, 0, 1), Reception::Record { skip: 0 });
}

#[test]
fn a_question_is_asked_once() {
    let (mut offer, granted) = claimed();
    let proof = proof("w1", &granted);
    assert_eq!(offer.ask(&proof, 1, Question::Tool), Asked::New);
    assert_eq!(offer.ask(&proof, 1, Question::Tool), Asked::Pending);
    assert_eq!(offer.ask(&proof, 1, Question::Retry), Asked::Superseded);
    assert!(offer.answered(&granted.invocation, 1, Answer::Exhausted));
    let known = Asked::Known(Answer::Exhausted);
    assert_eq!(offer.ask(&proof, 1, Question::Tool), known);
    assert_eq!(offer.ask(&proof, 2, Question::Retry), Asked::New);
    assert_eq!(offer.ask(&proof, 1, Question::Tool), Asked::Superseded);
}

#[test]
fn a_reservation_is_settled_once() {
    let (mut offer, granted) = claimed();
    let estimate = Amount {
        tokens: 1,
        nano_usd: 1,
    };
    let proof = proof("w1", &granted);
    offer.ask(&proof, 1, Question::Reserve(estimate));
    assert_eq!(offer.settle(1), None, "it is not granted yet");
    assert!(offer.answered(&granted.invocation, 1, Answer::Granted));
    assert_eq!(offer.settle(1), Some(estimate));
    assert_eq!(offer.settle(1), None);
}

#[test]
fn a_task_is_published_again_if_no_worker_claims_it() {
    let mut offer = Offer::new(HOLD, at(0));
    assert!(!offer.is_unclaimed(at(4)));
    assert!(offer.is_unclaimed(at(5)));
    offer.published(at(5));
    assert!(!offer.is_unclaimed(at(9)));
}

/// How a worker shows that it got the task.
#[derive(Clone, Copy)]
enum Shown {
    Nothing,
    ClaimRepeated,
    Fact,
    Question,
    Beat,
    FactOfAnotherToken,
}

/// Attempts are granted at second 0 of each round and lost at second 9.
#[rstest]
#[case::known_by_a_fact(Shown::Fact, 0, MAX_LOST)]
#[case::known_by_a_question(Shown::Question, 0, MAX_LOST)]
#[case::known_by_a_heartbeat(Shown::Beat, 0, MAX_LOST)]
#[case::never_heard_of(Shown::Nothing, 0, MAX_ATTEMPTS)]
#[case::only_asked_again(Shown::ClaimRepeated, 0, MAX_ATTEMPTS)]
#[case::imitated(Shown::FactOfAnotherToken, 0, MAX_ATTEMPTS)]
#[case::no_worker_was_heard_of(Shown::Fact, 9, MAX_ATTEMPTS)]
#[case::all_workers_were_silent_for_a_while(Shown::Fact, 5, MAX_ATTEMPTS)]
fn a_task_is_given_up_if_its_workers_are_lost_alone(
    #[case] shown: Shown,
    #[case] heard_since: u64,
    #[case] expected: u32,
) {
    let mut offer = Offer::new(HOLD, at(0));
    let mut attempts = 0;
    while !offer.is_given_up() {
        attempts += 1;
        let start = u64::from(attempts) * 100;
        let asked = claim("w1", "c");
        let granted = offer.claim(&asked, at(start), mint(1)).unwrap();
        let mut proof = proof("w1", &granted);
        match shown {
            Shown::Nothing => {}
            Shown::ClaimRepeated => assert!(offer.claim(&asked, at(start), mint(2)).is_some()),
            Shown::Fact => {
                assert_eq!(offer.receive(&proof, 0, 1), Reception::Record { skip: 0 });
            }
            Shown::Question => assert_eq!(offer.ask(&proof, 1, Question::Tool), Asked::New),
            Shown::Beat => {
                let held = held(&granted);
                let verdict = offer.beat(&worker("w1"), &held, at(start), Some(true));
                assert_eq!(verdict, Verdict::Keep { hold_ms: 8_000 });
            }
            Shown::FactOfAnotherToken => {
                proof.token = Token::new(&[9; 32]);
                assert_eq!(offer.receive(&proof, 0, 1), Reception::Superseded);
            }
        }
        assert!(offer.lose(at(start + 9), at(start + heard_since)).is_some());
    }
    assert_eq!(attempts, expected);
}

proptest! {
    /// Whatever order messages arrive in and however often, the recorded facts of an attempt are
    /// its first ones, each once.
    #[test]
    fn recorded_facts_are_a_prefix(messages in proptest::collection::vec((0_u64..20, 0_usize..6), 0..60)) {
        let (mut offer, granted) = claimed();
        let proof = proof("w1", &granted);
        let mut recorded = Vec::new();
        for (from, count) in messages {
            let facts = (from..).take(count);
            match offer.receive(&proof, from, count) {
                Reception::Record { skip } => recorded.extend(facts.skip(skip)),
                Reception::Missing => prop_assert!(from > recorded.len() as u64),
                Reception::Superseded => prop_assert!(false),
            }
            let expected: Vec<u64> = (0..recorded.len() as u64).collect();
            prop_assert_eq!(&recorded, &expected);
            prop_assert_eq!(offer.next_fact(), recorded.len() as u64);
        }
    }
}
