//! Which traces are recorded, and the ids of a run's trace.

use sha2::{Digest as _, Sha256};

use touchstone_kit::headers::trace_context::{SAMPLED, SpanId, TraceContext, TraceId};

/// Domain separator of the ids.
const RECIPE: &[u8] = b"touchstone:trace:v1\0";
/// Number of values of the random part of a trace id, which is its last seven bytes (W3C Trace
/// Context, level 2).
const RANDOM_VALUES: f64 = (1_u64 << 56) as f64;

/// The decision about a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    /// Whether the decision of a caller applies.
    pub follows_parent: bool,
    /// Share of the other traces that is recorded, 0.0..=1.0.
    pub ratio: f64,
}

impl Sampler {
    /// The sampler of a standard name; `None` for an unknown name. `ratio` is the argument of the
    /// samplers that have one.
    pub fn named(name: &str, ratio: f64) -> Option<Self> {
        let (follows_parent, name) = match name.strip_prefix("parentbased_") {
            Some(name) => (true, name),
            None => (false, name),
        };
        let ratio = match name {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => ratio,
            _ => return None,
        };
        Some(Self {
            follows_parent,
            ratio,
        })
    }

    /// Whether a trace is recorded. Depends only on the arguments, so every replica decides alike.
    pub fn samples(&self, trace_id: &TraceId, parent: Option<&TraceContext>) -> bool {
        if let Some(parent) = parent.filter(|_| self.follows_parent) {
            return parent.is_sampled();
        }
        let random = u128::from_be_bytes(*trace_id) & ((1 << 56) - 1);
        #[expect(clippy::cast_precision_loss, reason = "the error is one part in 2^53")]
        let place = random as f64 / RANDOM_VALUES;
        place >= 1.0 - self.ratio
    }
}

/// The root span of a run: in the trace of the run's caller, or in a trace of its own. The ids are
/// derived from the id of the run, so a process that resumes the run continues its trace.
pub fn root_of(run_id: &str, parent: Option<&TraceContext>, sampler: &Sampler) -> TraceContext {
    let digest: [u8; 32] = Sha256::new()
        .chain_update(RECIPE)
        .chain_update(run_id)
        .finalize()
        .into();
    let own: TraceId = digest.first_chunk().copied().unwrap_or_default();
    let span_id: SpanId = digest.last_chunk().copied().unwrap_or_default();
    let trace_id = parent.map_or(own, |parent| parent.trace_id);
    TraceContext {
        trace_id,
        span_id,
        flags: if sampler.samples(&trace_id, parent) {
            SAMPLED
        } else {
            0
        },
        state: parent.and_then(|parent| parent.state.clone()),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn caller(flags: &str) -> TraceContext {
        let header = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
        TraceContext::parse(&header, None).unwrap()
    }

    #[rstest]
    #[case("always_on", None, true)]
    #[case("always_off", None, false)]
    #[case("always_on", Some("00"), true)]
    #[case("parentbased_always_on", Some("00"), false)]
    #[case("parentbased_always_on", None, true)]
    #[case("parentbased_always_off", Some("01"), true)]
    #[case("parentbased_always_off", None, false)]
    fn a_caller_decides_only_for_samplers_that_follow_it(
        #[case] name: &str,
        #[case] flags: Option<&str>,
        #[case] expected: bool,
    ) {
        let sampler = Sampler::named(name, 1.0).unwrap();
        let parent = flags.map(caller);
        let root = root_of("run_1", parent.as_ref(), &sampler);
        assert_eq!(root.is_sampled(), expected);
        assert_eq!(Sampler::named("jaeger_remote", 1.0), None);
    }

    #[test]
    fn a_ratio_records_about_its_share_of_the_traces() {
        let sampler = Sampler::named("traceidratio", 0.25).unwrap();
        let ids = (0..4000).map(|n| format!("run_{n}"));
        let sampled = ids.filter(|id| root_of(id, None, &sampler).is_sampled());
        let count = sampled.count();
        assert!((800..1200).contains(&count), "{count} of 4000");
    }

    #[test]
    fn a_run_has_the_same_trace_in_every_process_and_another_one_than_other_runs() {
        let sampler = Sampler::named("always_on", 1.0).unwrap();
        let root = root_of("run_1", None, &sampler);
        assert_eq!(root, root_of("run_1", None, &sampler));
        assert_ne!(root.trace_id, root_of("run_2", None, &sampler).trace_id);
        let within = root_of("run_1", Some(&caller("01")), &sampler);
        assert_eq!(within.trace_id, caller("01").trace_id);
        assert_eq!(within.span_id, root.span_id);
    }
}
