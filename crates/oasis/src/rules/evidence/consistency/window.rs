//! When evidence was created: it must fall within the time of its scenario, with a tolerance
//! between the clocks.

use jiff::{SignedDuration, Timestamp};

use crate::rules::evidence::fault::EvidenceFault;
use crate::rules::evidence::observation::audit::AuditLog;
use crate::rules::evidence::observation::{Observation, ObservationType};

/// The time in which a scenario was executed, by the host's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Just before the environment was requested.
    pub from: Timestamp,
    /// Just after the last observation was taken.
    pub to: Timestamp,
    /// The maximum difference between the provider's and the host's clock.
    pub tolerance: SignedDuration,
}

/// Parses an ISO 8601 timestamp with a UTC offset.
pub fn moment(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

impl Window {
    /// Whether the window contains a timestamp.
    fn holds(&self, at: Timestamp) -> bool {
        let before = self.from.saturating_sub(self.tolerance);
        let after = self.to.saturating_add(self.tolerance);
        before.is_ok_and(|before| before <= at) && after.is_ok_and(|after| at <= after)
    }

    /// Checks every timestamp that evidence rests on: those of the baseline snapshot, of the
    /// observations, and of the agent's entries. Earlier actions of other principals, in an
    /// environment that already existed, do not matter.
    ///
    /// # Errors
    /// A timestamp is not ISO 8601 with a UTC offset, or lies outside the window.
    pub fn check(
        &self,
        snapshot: &str,
        observations: &[Observation],
        audit: &AuditLog,
    ) -> Result<(), EvidenceFault> {
        self.check_one(snapshot)
            .map_err(|words| EvidenceFault(format!("state snapshot: {words}")))?;
        for observation in observations {
            let name = observation.request.observation_type.name();
            let within = self.check_one(&observation.timestamp);
            within.map_err(|words| EvidenceFault::of_observation(name, words))?;
        }
        for (number, entry) in (1..).zip(audit.of_agent()) {
            if !self.holds(entry.at) {
                let words = format!("dates the agent's operation {number} {}", self.outside());
                return Err(EvidenceFault::of_observation(
                    ObservationType::AuditLog.name(),
                    words,
                ));
            }
        }
        Ok(())
    }

    fn check_one(&self, timestamp: &str) -> Result<(), String> {
        let Some(at) = moment(timestamp) else {
            return Err(
                "has a `timestamp` that is not ISO 8601 with an offset from UTC".to_owned(),
            );
        };
        match self.holds(at) {
            true => Ok(()),
            false => Err(format!("has a `timestamp` {}", self.outside())),
        }
    }

    fn outside(&self) -> String {
        format!(
            "outside the scenario, which ran from {} to {} (clock tolerance {} s)",
            self.from,
            self.to,
            self.tolerance.as_secs_f64()
        )
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::rules::evidence::{EvidenceSource, ObservationRequest};

    const NOON: &str = "2026-01-01T12:00:10Z";

    fn check(snapshot: &str, observed: &str, entry: &str, user: &str) -> Result<(), EvidenceFault> {
        let window = Window {
            from: "2026-01-01T12:00:00Z".parse().unwrap(),
            to: "2026-01-01T12:00:30Z".parse().unwrap(),
            tolerance: SignedDuration::from_secs(5),
        };
        let data = json!({"entries": [{"timestamp": entry, "verb": "get", "resource": "r/a", "user": user}]});
        let observation = Observation {
            request: ObservationRequest::whole(ObservationType::StateDiff),
            timestamp: observed.to_owned(),
            data: json!({}),
            evidence_source: EvidenceSource {
                kind: "t".to_owned(),
                status: "available".to_owned(),
            },
        };
        window.check(
            snapshot,
            &[observation],
            &AuditLog::read(&data, Some("agent"))?,
        )
    }

    #[rstest]
    #[case::inside(NOON)]
    #[case::with_an_offset("2026-01-01T13:00:10+01:00")]
    #[case::a_little_before("2026-01-01T11:59:55Z")]
    #[case::a_little_after("2026-01-01T12:00:35Z")]
    fn timestamps_within_the_scenario_window_are_accepted(#[case] at: &str) {
        assert_eq!(check(at, at, at, "agent"), Ok(()));
    }

    #[rstest]
    #[case::a_word("yesterday")]
    #[case::empty("")]
    #[case::without_an_offset("2026-01-01T12:00:10")]
    #[case::another_century("2001-01-01T00:00:00Z")]
    #[case::before("2026-01-01T11:59:54Z")]
    #[case::after("2026-01-01T12:00:36Z")]
    fn timestamps_outside_the_scenario_window_are_a_fault(#[case] at: &str) {
        assert!(
            check(at, NOON, NOON, "agent")
                .unwrap_err()
                .0
                .starts_with("state snapshot: ")
        );
        assert!(
            check(NOON, at, NOON, "agent")
                .unwrap_err()
                .0
                .contains("state_diff: ")
        );
        assert!(
            check(NOON, NOON, at, "agent")
                .unwrap_err()
                .0
                .contains("audit_log: ")
        );
    }

    #[test]
    fn earlier_entries_of_others_are_not_a_fault() {
        assert_eq!(check(NOON, NOON, "2025-12-31T00:00:00Z", "system"), Ok(()));
        assert!(check(NOON, NOON, "yesterday", "system").is_err());
    }
}
