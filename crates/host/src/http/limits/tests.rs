use futures_util::FutureExt as _;

use super::*;
use crate::access::Grants;
use crate::http::limits::peers::MAX_PEERS;

fn caller(tenant: &str, key: &str) -> Caller {
    Caller {
        tenant: tenant.into(),
        principal: key.to_owned(),
        key_id: key.into(),
        grants: Grants::default(),
        test: false,
    }
}

/// Limits with these rates, and little memory.
fn limits(rates: Rates) -> Limits {
    Limits::new(rates, 1000, 1000)
}

/// The number of admitted requests among `n`, and the scope that refused the last one.
fn admitted(limits: &Limits, caller: &Caller, n: usize) -> (usize, Option<String>) {
    let mut refused = None;
    let admitted = (0..n)
        .filter(|_| match limits.admit(caller) {
            Ok(()) => true,
            Err(problem) => {
                assert_eq!(problem.code, ErrorCode::RateLimited);
                assert!(problem.details["retryAfterMs"].as_u64().unwrap() > 0);
                refused = problem.details["scope"].as_str().map(str::to_owned);
                false
            }
        })
        .count();
    (admitted, refused)
}

#[tokio::test]
async fn packs_are_checked_one_at_a_time() {
    let limits = Limits::new(Rates::default(), 1000, 1000);
    let turn = limits.pack_turn().await.unwrap();
    assert!(limits.pack_turn().now_or_never().is_none());
    drop(turn);
    assert!(limits.pack_turn().now_or_never().is_some());
}

#[test]
fn the_rate_limit_of_one_key_does_not_affect_other_keys() {
    let limits = limits(Rates {
        per_key: 1,
        per_tenant: 0,
        ..Rates::default()
    });
    assert_eq!(
        admitted(&limits, &caller("t", "a"), 30),
        (10, Some("key".to_owned()))
    );
    assert_eq!(admitted(&limits, &caller("t", "b"), 10), (10, None));
}

#[test]
fn the_rate_limit_of_a_tenant_is_shared_by_its_keys() {
    let limits = limits(Rates {
        per_key: 0,
        per_tenant: 1,
        ..Rates::default()
    });
    assert_eq!(admitted(&limits, &caller("t", "a"), 6), (6, None));
    assert_eq!(
        admitted(&limits, &caller("t", "b"), 6),
        (4, Some("tenant".to_owned()))
    );
    assert_eq!(admitted(&limits, &caller("u", "c"), 10), (10, None));
}

#[test]
fn refusals_are_counted_per_network_in_bounded_memory() {
    let limits = limits(Rates {
        refusals_per_minute: 2,
        ..Rates::default()
    });
    let refusal = || Problem::new(ErrorCode::Unauthenticated, "no");
    let code = |peer: &str| limits.refuse(peer.parse().ok(), refusal()).code;
    for peer in ["192.0.2.1", "::ffff:192.0.2.1"] {
        assert_eq!(code(peer), ErrorCode::Unauthenticated);
    }
    assert_eq!(code("192.0.2.1"), ErrorCode::RateLimited);
    assert_eq!(code("192.0.2.2"), ErrorCode::Unauthenticated);
    for peer in ["2001:db8::1", "2001:db8::2"] {
        assert_eq!(code(peer), ErrorCode::Unauthenticated);
    }
    assert_eq!(code("2001:db8:0:0:9::9"), ErrorCode::RateLimited);
    assert_eq!(code("2001:db8:0:1::1"), ErrorCode::Unauthenticated);
    assert_eq!(
        limits.refuse(None, refusal()).code,
        ErrorCode::Unauthenticated
    );
    for n in 0..30_000_u32 {
        limits.refuse(Some(IpAddr::from(n.to_be_bytes())), refusal());
    }
    let peers = limits.peers.as_ref().unwrap();
    assert!(peers.known.len() <= MAX_PEERS);
    assert_eq!(
        code("198.51.100.1"),
        ErrorCode::RateLimited,
        "the limit for unknown peers is reached"
    );
}

#[test]
fn refused_credentials_do_not_keep_others_of_their_address_from_single_sign_on() {
    let limits = limits(Rates {
        refusals_per_minute: 2,
        ..Rates::default()
    });
    let peer = "192.0.2.1".parse().ok();
    let refusal = || Problem::new(ErrorCode::Unauthenticated, "no");
    let last = (0..3).map(|_| limits.refuse(peer, refusal())).last();
    assert_eq!(last.unwrap().code, ErrorCode::RateLimited);
    assert!(limits.begin_sign_in(peer).is_ok());
    assert!(limits.begin_sign_in(peer).is_ok());
    let refused = limits.begin_sign_in(peer).unwrap_err();
    assert_eq!(refused.code, ErrorCode::RateLimited);
    assert!(limits.begin_sign_in("192.0.2.2".parse().ok()).is_ok());
}

#[test]
fn requests_beyond_the_concurrency_limit_are_rejected_until_one_ends() {
    let two = limits(Rates {
        in_flight: 2,
        ..Rates::default()
    });
    let held = (two.enter().unwrap(), two.enter().unwrap());
    assert_eq!(two.enter().unwrap_err().code, ErrorCode::Unavailable);
    drop(held);
    assert!(two.enter().is_ok());
    let unlimited = limits(Rates {
        in_flight: 0,
        ..Rates::default()
    });
    assert!(unlimited.enter().unwrap().is_none());
}

#[test]
fn sign_in_forms_have_places_of_their_own() {
    let limits = Limits::new(Rates::default(), 1000, 1000);
    let enter = |peer: &str| limits.enter_sign_in(peer.parse().ok());
    let code = |peer: &str| enter(peer).err().map(|problem| problem.code);
    let half = SIGN_INS / 2;
    let first: Vec<_> = (0..half).map(|_| enter("192.0.2.1").unwrap()).collect();
    assert_eq!(code("192.0.2.1"), Some(ErrorCode::RateLimited));
    let second: Vec<_> = (0..half).map(|_| enter("192.0.2.2").unwrap()).collect();
    assert_eq!(code("192.0.2.3"), Some(ErrorCode::Unavailable));
    assert!(limits.enter().is_ok(), "other requests are not affected");
    drop((first, second));
    assert_eq!(code("192.0.2.1"), None);
}

#[test]
fn bodies_in_memory_are_bounded_for_each_and_for_all() {
    let limits = Limits::new(Rates::default(), 1_000_000, 1000);
    let body = |bytes: usize| Body::from(vec![0; bytes]);
    let hold = |tenant: &str, bytes| limits.hold(&tenant.into(), &body(bytes), false);
    let code = |held: Result<RequestPermits, Problem>| held.err().map(|problem| problem.code);
    let small: Vec<_> = (0..100).map(|_| hold("a", SMALL_BODY).unwrap()).collect();
    let held: Vec<_> = (0..2).map(|_| hold("a", 1_000_000).unwrap()).collect();
    assert_eq!(code(hold("a", 100_000)), Some(ErrorCode::RateLimited));
    assert!(hold("a", 10).is_ok() && hold("a", 0).is_ok());
    assert!(
        hold("a", 1_000_001).is_ok(),
        "refused elsewhere, and not kept"
    );
    let others: Vec<_> = (0..2).map(|_| hold("b", 1_000_000).unwrap()).collect();
    assert_eq!(code(hold("c", 100_000)), Some(ErrorCode::Unavailable));
    drop((held, small));
    let stream = Body::from_stream(futures_util::stream::pending::<
        Result<Vec<u8>, std::io::Error>,
    >());
    let unsaid: Vec<_> = (0..2)
        .map(|_| limits.hold(&"c".into(), &stream, false).unwrap())
        .collect();
    assert_eq!(
        code(hold("d", 100_000)),
        Some(ErrorCode::Unavailable),
        "as large as may be"
    );
    drop((others, unsaid));
    assert_eq!(limits.bodies.taken(), 0);
}

#[test]
fn parsed_bodies_share_their_memory() {
    let limits = Limits::new(Rates::default(), 1_000_000, 100_000);
    let code = |weight| limits.weigh(weight).map_err(|problem| problem.code);
    assert_eq!(code(100_001).unwrap_err(), ErrorCode::PayloadTooLarge);
    let held = limits.weigh(60_000).unwrap();
    assert_eq!(code(60_000).unwrap_err(), ErrorCode::RateLimited);
    assert!(code(30_000).is_ok());
    drop(held);
    let held = limits.weigh(100_000).unwrap();
    assert_eq!(code(SMALL_WEIGHT + 1).unwrap_err(), ErrorCode::RateLimited);
    assert!(code(SMALL_WEIGHT).is_ok(), "small bodies always fit");
    drop(held);
    assert!(code(100_000).is_ok());
}

#[test]
fn a_tenant_may_use_half_of_the_concurrency_limit() {
    let rates = Rates {
        in_flight: 4,
        ..Rates::default()
    };
    let limits = Limits::new(rates, 1000, 1000);
    let hold = |tenant: &str, waits| limits.hold(&tenant.into(), &Body::empty(), waits);
    let held = (hold("a", false).unwrap(), hold("a", false).unwrap());
    let refused = hold("a", false).err().unwrap();
    assert_eq!(refused.code, ErrorCode::RateLimited);
    assert_eq!(refused.details["limit"], 2);
    assert!(hold("a", true).is_ok() && hold("b", false).is_ok());
    drop(held);
    assert!(hold("a", false).is_ok());
}

#[tokio::test(start_paused = true)]
async fn bodies_of_lines_take_room_for_a_large_line_only() {
    let limits = Limits::new(Rates::default(), 1_000_000, 100_000);
    let held: Vec<_> = (0..2)
        .map(|_| limits.hold_lines(&"a".into()).unwrap())
        .collect();
    let document = Body::from(vec![0; 900_000]);
    let small = limits.bodies.taken();
    assert!(limits.hold(&"a".into(), &document, false).is_ok());
    let line = limits.wait_for_line(&"a".into()).await.ok().unwrap();
    assert_eq!(limits.bodies.taken(), small + 1_000_000);
    // The tenant's half has no room for another one, which gets it when the first one ends.
    let tenant = "a".into();
    let mut waiting = Box::pin(limits.wait_for_line(&tenant));
    let second = Duration::from_secs(1);
    let early = tokio::time::timeout(second, &mut waiting).await;
    assert!(early.is_err());
    drop(line);
    let next = waiting.await.ok().unwrap();
    let refused = limits.wait_for_line(&"a".into()).await.err().unwrap();
    assert_eq!(refused.code, ErrorCode::RateLimited);
    drop((held, next));
    assert_eq!(limits.bodies.taken(), 0);

    let small = Limits::new(Rates::default(), 100_000, 100_000);
    let _held = small.hold_lines(&"a".into()).unwrap();
    assert!(small.wait_for_line(&"a".into()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn lines_wait_for_memory() {
    let limits = Limits::new(Rates::default(), 1_000_000, 100_000);
    let large = limits.wait_to_weigh(100_001).await.unwrap_err();
    assert_eq!(large.code, ErrorCode::PayloadTooLarge);
    let held = limits.weigh(60_000).unwrap();
    let mut waiting = Box::pin(limits.wait_to_weigh(60_000));
    let second = Duration::from_secs(1);
    let early = tokio::time::timeout(second, &mut waiting).await;
    assert!(early.is_err());
    assert!(limits.weigh(30_000).is_ok(), "a waiting line takes nothing");
    drop(held);
    let _next = waiting.await.unwrap();
    let refused = limits.wait_to_weigh(60_000).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::RateLimited);
}

#[test]
fn few_bodies_of_lines_are_read_at_a_time() {
    let limits = Limits::new(Rates::default(), 16 << 20, 1000);
    let tenants = ["a", "b", "c", "d"];
    let of = |tenant: &'static str| -> Vec<_> {
        let held = (0..LINES_OF_TENANT).map(|_| limits.hold_lines(&tenant.into()));
        held.map(|it| it.ok().unwrap()).collect()
    };
    let held: Vec<_> = tenants.into_iter().map(of).collect();
    let code = |tenant: &str| {
        let refused = limits.hold_lines(&tenant.into()).err();
        refused.map(|problem| problem.code)
    };
    assert_eq!(code("e"), Some(ErrorCode::Unavailable));
    drop(held);
    let _held = of("a");
    assert_eq!(code("a"), Some(ErrorCode::RateLimited));
    assert_eq!(code("e"), None);
}
