//! An untrusted signed verdict: nothing unsigned by our key is read, and what our key signed opens
//! unchanged.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use touchstone_openwop::dsse::{open, seal};
use touchstone_deployments::attestation::{Rejected, read};
use touchstone_kit::json;
use touchstone_openwop::in_toto::Envelope;
use touchstone_kit::keys::{PublicKey, SecretKey};

static SECRET: LazyLock<SecretKey> = LazyLock::new(|| SecretKey::from_random([7; 32]));
static PUBLIC: LazyLock<PublicKey> = LazyLock::new(|| SECRET.public());

fuzz_target!(|data: &[u8]| {
    if let Ok(Ok(envelope)) = json::parse_as::<Envelope>(data) {
        // The envelope cannot be signed with our key.
        assert!(matches!(
            read(&envelope, &PUBLIC),
            Err(Rejected::Unverified(_))
        ));
    }
    let sealed = seal(data, &SECRET);
    assert_eq!(open(&sealed, &PUBLIC).as_deref(), Ok(data));
    if let Err(rejected) = read(&sealed, &PUBLIC) {
        assert!(
            !matches!(rejected, Rejected::Unverified(_)),
            "signed by us, and no verdict"
        );
    }
    let mut other = sealed.clone();
    other.payload_type.push('x');
    assert!(
        open(&other, &PUBLIC).is_err(),
        "the kind is covered by the signature"
    );
});
