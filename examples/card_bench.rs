//! Measures scoring one agent card without network access: `cargo run --release --example
//! card_bench -- CARD.json [KEYS.json]`.
//!
//! With a key set, its keys are trusted, so that signatures are verified; the clock is the
//! machine's.

use std::time::Instant;

use jiff::Timestamp;
use touchstone_agent_cards::rules::signature::{KeySet, Keys};
use touchstone_agent_cards::rules::{Context, Live, score};

const ROUNDS: usize = 2_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut files = std::env::args().skip(1);
    let card = std::fs::read(files.next().ok_or("name a card")?)?;
    let mut keys = Keys::default();
    if let Some(file) = files.next() {
        let set = KeySet::parse(&std::fs::read(file)?).and_then(KeySet::by_id);
        keys.trust_store = set.ok_or("no key set in which every key has a `kid`")?;
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "the measurement uses the clock of the machine"
    )]
    let context = Context {
        now: Timestamp::now(),
        keys: Some(&keys),
        live: Live::Disabled,
    };
    let mut taken = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let found = score(&card, &context);
        taken.push(begun.elapsed());
        std::hint::black_box(found);
    }
    taken.sort_unstable();
    let at = |share: usize| taken.get(ROUNDS * share / 100).copied().unwrap_or_default();
    let states = score(&card, &context).trust.signature_results;
    let (median, slow) = (at(50), at(99));
    #[expect(clippy::print_stdout, reason = "it is what the program is for")]
    {
        println!(
            "{} bytes, {} signatures: median {median:?}, 99th percentile {slow:?} ({ROUNDS} rounds)",
            card.len(),
            states.len()
        );
    }
    Ok(())
}
