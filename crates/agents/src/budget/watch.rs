//! Budget events while a run uses its budget (RFC 0084 §C): consumption, crossed thresholds,
//! reached limits. They are derived from the recorded spending in coarse steps; nothing is measured
//! separately.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Dimension, Limits, Spending};

/// Consumption is reported again after this additional share of the limit is used.
const STEP: f64 = 0.1;

/// An event to report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Notice {
    /// Consumption so far.
    Consumed {
        dimension: Dimension,
        /// In the dimension's unit.
        consumed: f64,
        limit: f64,
    },
    /// A threshold was crossed.
    Crossed {
        dimension: Dimension,
        /// In the dimension's unit.
        consumed: f64,
        limit: f64,
        percent: f64,
    },
    /// An advisory limit was reached; nothing is stopped.
    Reached {
        dimension: Dimension,
        /// In the dimension's unit.
        consumed: f64,
        limit: f64,
    },
}

/// Budget events that the run's log already contains.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportedEvents {
    /// The last reported consumption.
    pub consumed: BTreeMap<Dimension, f64>,
    /// Dimensions whose threshold was reported as crossed.
    pub crossed: BTreeSet<Dimension>,
    /// Dimensions whose limit was reported as reached.
    pub exhausted: BTreeSet<Dimension>,
}

/// Watches the budget a caller asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Watch {
    limits: Limits,
    percent: Option<f64>,
    advisory: bool,
    reported: ReportedEvents,
}

impl Watch {
    /// Continues after the events that were already reported.
    pub fn new(
        limits: Limits,
        percent: Option<f64>,
        advisory: bool,
        reported: ReportedEvents,
    ) -> Self {
        Self {
            limits,
            percent,
            advisory,
            reported,
        }
    }

    /// The events to report now; each of them then counts as reported.
    pub fn observe(&mut self, spent: &Spending) -> Vec<Notice> {
        let mut notices = Vec::new();
        for dimension in Dimension::ALL {
            let Some(limit) = self.limits.of(dimension) else {
                continue;
            };
            let consumed = spent.of(dimension);
            let last = self
                .reported
                .consumed
                .get(&dimension)
                .copied()
                .unwrap_or(0.0);
            let reached = consumed >= limit && consumed > 0.0;
            // Beyond the limit, where an advisory budget does not stop the run, coarser steps
            // suffice.
            let step = if last < limit { limit * STEP } else { limit };
            let due = consumed - last >= step || (reached && last < limit);
            if consumed > last && due && (limit > 0.0 || last == 0.0) {
                self.reported.consumed.insert(dimension, consumed);
                notices.push(Notice::Consumed {
                    dimension,
                    consumed,
                    limit,
                });
            }
            if let Some(percent) = self.percent
                && consumed > 0.0
                && consumed >= limit * percent / 100.0
                && self.reported.crossed.insert(dimension)
            {
                notices.push(Notice::Crossed {
                    dimension,
                    consumed,
                    limit,
                    percent,
                });
            }
            if self.advisory && reached && self.reported.exhausted.insert(dimension) {
                notices.push(Notice::Reached {
                    dimension,
                    consumed,
                    limit,
                });
            }
        }
        notices
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tokens(tokens: u64) -> Spending {
        Spending {
            tokens,
            ..Spending::default()
        }
    }

    fn of_tokens(limit: u64) -> Limits {
        Limits {
            max_tokens: Some(limit),
            ..Limits::default()
        }
    }

    #[test]
    fn consumption_is_reported_in_steps_and_the_threshold_once() {
        let mut watch = Watch::new(of_tokens(100), Some(80.0), false, ReportedEvents::default());
        assert_eq!(watch.observe(&tokens(9)), []);
        let consumed = |consumed| Notice::Consumed {
            dimension: Dimension::Tokens,
            consumed,
            limit: 100.0,
        };
        assert_eq!(watch.observe(&tokens(15)), [consumed(15.0)]);
        assert_eq!(watch.observe(&tokens(24)), []);
        let crossed = Notice::Crossed {
            dimension: Dimension::Tokens,
            consumed: 85.0,
            limit: 100.0,
            percent: 80.0,
        };
        assert_eq!(watch.observe(&tokens(85)), [consumed(85.0), crossed]);
        assert_eq!(watch.observe(&tokens(110)), [consumed(110.0)]);
        assert_eq!(watch.observe(&tokens(110)), []);
    }

    #[test]
    fn a_resumed_watch_reports_only_unreported_notices() {
        let reported = ReportedEvents {
            consumed: BTreeMap::from([(Dimension::Tokens, 85.0)]),
            ..ReportedEvents::default()
        };
        let mut watch = Watch::new(of_tokens(100), Some(80.0), false, reported);
        let notices = watch.observe(&tokens(85));
        assert!(matches!(notices.as_slice(), [Notice::Crossed { .. }]));
    }

    #[test]
    fn reaching_an_advisory_limit_is_reported_once() {
        let mut watch = Watch::new(of_tokens(10), None, true, ReportedEvents::default());
        let notices = watch.observe(&tokens(12));
        assert!(matches!(
            notices.as_slice(),
            [
                Notice::Consumed { .. },
                Notice::Reached { consumed: 12.0, .. }
            ]
        ));
        assert_eq!(watch.observe(&tokens(20)), []);
        let notices = watch.observe(&tokens(25));
        assert!(matches!(notices.as_slice(), [Notice::Consumed { .. }]));
    }

    proptest! {
        /// However the budget is used, there are few events, and reported consumption never
        /// decreases.
        #[test]
        fn reported_consumption_increases_and_notices_are_few(calls in prop::collection::vec(0_u64..30, 0..200), limit in 1_u64..1000) {
            let mut watch = Watch::new(of_tokens(limit), Some(50.0), false, ReportedEvents::default());
            let (mut spent, mut last, mut crossed) = (0, 0.0, 0);
            for call in calls {
                spent += call;
                for notice in watch.observe(&tokens(spent)) {
                    match notice {
                        Notice::Consumed { consumed, .. } => {
                            prop_assert!(consumed > last);
                            last = consumed;
                        }
                        Notice::Crossed { consumed, .. } => {
                            prop_assert!(consumed * 2.0 >= limit as f64);
                            crossed += 1;
                        }
                        Notice::Reached { .. } => prop_assert!(false, "it is not advisory"),
                    }
                }
            }
            prop_assert!(crossed <= 1);
        }
    }
}
