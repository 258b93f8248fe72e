//! States of runs as badges.

use touchstone_runs::rules::eval::report::Verdict;
use touchstone_runs::rules::run::listing::RunListing;

/// A state: a sign and a word, and the class of its colour.
pub struct Badge {
    pub class: &'static str,
    pub sign: &'static str,
    pub text: &'static str,
}

impl Badge {
    pub fn is_running(&self) -> bool {
        self.text == RUNNING
    }

    pub fn is_paused(&self) -> bool {
        self.text == PAUSED
    }

    pub fn is_cancelling(&self) -> bool {
        self.text == CANCELLING
    }
}

const RUNNING: &str = "Running";
const PAUSED: &str = "Paused";
const CANCELLING: &str = "Being cancelled";

const fn badge(class: &'static str, sign: &'static str, text: &'static str) -> Badge {
    Badge { class, sign, text }
}

pub fn verdict(verdict: Option<Verdict>) -> Option<Badge> {
    Some(match verdict? {
        Verdict::Pass => badge("good", "✓", "Passed"),
        Verdict::Fail => badge("bad", "✗", "Failed"),
        Verdict::Inconclusive => badge("warn", "?", "Inconclusive"),
        Verdict::Pending => return None,
    })
}

/// A run's verdict, or its status while it has none.
pub fn state(run: &RunListing) -> Badge {
    verdict(run.verdict()).unwrap_or_else(|| status(&run.status))
}

/// The wire name of a status.
pub fn status(status: &str) -> Badge {
    match status {
        "pending" => badge("info", "…", "Waiting"),
        "running" => badge("info live", "●", RUNNING),
        "paused" => badge("warn", "⏸", PAUSED),
        "waiting-approval" => badge("warn", "✋", "Waits for approval"),
        "waiting-input" => badge("warn", "✋", "Waits for input"),
        "cancelling" => badge("warn", "…", CANCELLING),
        "cancelled" => badge("", "⊘", "Cancelled"),
        "failed" => badge("bad", "✗", "Broke off"),
        "completed" => badge("good", "✓", "Completed"),
        _ => badge("", "?", "Unknown"),
    }
}

/// Whether a run with this status can still change.
pub fn is_open(status: &str) -> bool {
    !matches!(status, "completed" | "failed" | "cancelled")
}
