//! Draws that are the same on every machine and in every version of this host: SplitMix64 (Steele,
//! Lea and Flood, 2014).
//!
//! A library's generator may change between versions; probes must not. Nothing here is secret, so
//! no stronger generator is needed.

/// The golden ratio, as the generator's step.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

#[derive(Clone, Debug)]
pub(super) struct Draw(u64);

impl Draw {
    /// The stream of one probe. Each probe has a separate stream, so that a longer list of probes
    /// starts with the shorter one.
    pub fn of(seed: u64, number: u32) -> Self {
        Self(mixed(seed) ^ mixed(u64::from(number).wrapping_mul(STEP)))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mixed(self.0)
    }

    /// A number below the bound; 0 if the bound is 0. The highest bits decide, and the bias is
    /// below `bound / 2^64`.
    #[expect(clippy::expect_used, reason = "the number is below a `usize`")]
    pub fn below(&mut self, bound: usize) -> usize {
        let wide = u128::from(self.next()).wrapping_mul(bound as u128) >> 64;
        usize::try_from(wide).expect("the number is below the bound")
    }

    /// `true` with probability `1 / chances`.
    pub fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    /// One of the elements; `None` for an empty slice.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len()))
    }
}

/// The generator's finaliser.
fn mixed(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_those_of_the_published_generator() {
        let mut draw = Draw(1_234_567);
        let drawn = [draw.next(), draw.next(), draw.next()];
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!(drawn, published);
    }

    #[test]
    fn draws_stay_below_their_bound_and_reach_all_of_it() {
        let mut draw = Draw::of(0, 1);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[draw.below(5)] = true;
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!(draw.below(0), 0);
        assert_eq!(draw.pick::<u8>(&[]), None);
    }

    #[test]
    fn every_probe_has_a_stream_of_its_own() {
        let first = |seed, number| Draw::of(seed, number).next();
        assert_ne!(first(1, 1), first(1, 2));
        assert_ne!(first(1, 1), first(2, 1));
        assert_ne!(first(0, 1), first(1, 0));
    }
}
