//! A message of a worker or of an owner: it is read within bounds, and what is read is written so
//! that it is read again. Facts that are no facts of an attempt are not recorded.

#![no_main]

use libfuzzer_sys::fuzz_target;
use touchstone_cluster::rules::facts;
use touchstone_cluster::rules::subjects::Address;
use touchstone_cluster::rules::wire::{
    self, Answer, Ask, Beat, Beaten, Claim, Claimed, Facts, Frame, Message, Offered, Received,
};
use touchstone_kit::ids::TaskId;

fn check<M: Message>(data: &[u8]) {
    let Ok(message) = wire::read::<M>(data) else {
        return;
    };
    // Text may need more bytes as it is written than as it was read.
    if let Ok(written) = wire::write(&message) {
        assert!(wire::read::<M>(&written).is_ok(), "{}", M::NAME);
    }
}

fuzz_target!(|data: &[u8]| {
    check::<Offered>(data);
    check::<Claim>(data);
    check::<Claimed>(data);
    check::<Facts>(data);
    check::<Received>(data);
    check::<Ask>(data);
    check::<Answer>(data);
    check::<Beat>(data);
    check::<Beaten>(data);
    if let Ok(Facts { frames, .. }) = wire::read(data) {
        for frame in frames {
            if let Frame::Event { kind, payload, .. } = frame {
                let _ = facts::event(&kind, &payload, "inv_1", &TaskId::from("t"));
            }
        }
    }
    if let Ok(subject) = std::str::from_utf8(data)
        && let Some(address) = Address::parse(subject)
    {
        assert_eq!(address.to_string(), subject);
    }
});
