//! What pages say of runs.

pub use crate::page::badge::Badge;
use crate::page::text::count;
use touchstone_host::render::words::plain;
use touchstone_runs::rules::eval::report::Verdict;
use touchstone_runs::rules::run::listing::RunListing;

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
const CANCELLING: &str = "Cancelling";

pub fn verdict(verdict: Option<Verdict>) -> Option<Badge> {
    Some(match verdict? {
        Verdict::Pass => Badge::of("good", "✓", "Passed"),
        Verdict::Fail => Badge::of("bad", "✗", "Failed"),
        Verdict::Inconclusive => Badge::of("warn", "?", "Inconclusive"),
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
        "pending" => Badge::of("info", "…", "Waiting"),
        "running" => Badge::of("info live", "●", RUNNING),
        "paused" => Badge::of("warn", "‖", PAUSED),
        "waiting-approval" => Badge::of("warn", "◷", "Waits for approval"),
        "waiting-input" => Badge::of("warn", "◷", "Waits for input"),
        "waiting-external" => Badge::of("warn", "◷", "Waits for another system"),
        "cancelling" => Badge::of("warn", "…", CANCELLING),
        "cancelled" => Badge::of("", "⊘", "Cancelled"),
        "failed" => Badge::of("bad", "✗", "Error"),
        "completed" => Badge::of("good", "✓", "Completed"),
        _ => Badge::of("", "?", "Unknown"),
    }
}

/// How many tasks passed, of all that the run should score.
pub fn passed(run: &RunListing) -> String {
    let result = run.result.as_ref();
    let passed = result.and_then(|it| it.passed_count);
    let all = run.subject.task_count;
    let all = all.or_else(|| result.and_then(|it| it.judged_count));
    match (passed, all) {
        (Some(passed), Some(all)) => format!("{} of {}", count(passed), count(all)),
        _ => String::new(),
    }
}

/// The 95 % interval of a run's own score.
pub fn interval(run: &RunListing) -> Option<String> {
    let result = run.result.as_ref()?;
    let (low, high) = result.score_low.zip(result.score_high)?;
    Some(format!("{low:.3} to {high:.3}"))
}

/// The name of a run that is not an eval run.
pub fn workflow(id: &str) -> String {
    match id.split_once(':') {
        Some(("deployment", agent)) => format!("Deployment of {}", plain(agent)),
        _ if id == "approval-gate" => "Approval of a promotion".to_owned(),
        _ => plain(id),
    }
}

/// Whether a run with this status can still change.
pub fn is_open(status: &str) -> bool {
    !matches!(status, "completed" | "failed" | "cancelled")
}
