//! Confidence intervals and significance of scores, in words.

use std::fmt::Write as _;

use crate::rules::eval::scoring::tasks;
use crate::rules::eval::statistics::{Comparison, Estimate, Method, Statistics};
use touchstone_host::render::colors::Colors;
use touchstone_kit::statistics::{GateVerdict, RegressionVerdict};

/// Maximum number of trials for which reliability is shown; `--json` has all.
const SHOWN_TRIALS: usize = 10;

pub fn statistics(found: &Statistics, colors: Colors) -> String {
    let mut text = String::new();
    let trials = match (found.trials_per_task.min, found.trials_per_task.max) {
        (1, 1) => "1 trial each".to_owned(),
        (min, max) if min == max => format!("{max} trials each"),
        (min, max) => format!("{min} to {max} trials each"),
    };
    let _ = writeln!(
        text,
        "suite    {}  {}",
        colors.strong(&format!("{}@{}", found.suite_id, found.suite_version)),
        colors.faint(&found.suite_digest)
    );
    let _ = writeln!(text, "tasks    {}, {trials}", found.n_tasks);
    if found.unjudged > 0 {
        let _ = writeln!(
            text,
            "unjudged {}",
            colors.doubtful(&found.unjudged.to_string())
        );
    }
    for (name, estimate) in [("passed  ", found.pass_rate), ("score   ", found.score)] {
        if let Some(estimate) = estimate {
            let _ = writeln!(text, "{name} {}", in_words(&estimate));
        }
    }
    if let Some(effect) = found.design_effect {
        let _ = writeln!(
            text,
            "alike    trials of one task correlate, which multiplies the variance by {effect:.2}"
        );
    }
    if found.trials_per_task.max > 1 {
        let chances = |by_k: &std::collections::BTreeMap<usize, Option<f64>>| {
            let shown = by_k.iter().take(SHOWN_TRIALS);
            let words = shown.filter_map(|(k, chance)| Some(format!("{k}: {:.2}", (*chance)?)));
            words.collect::<Vec<_>>().join("  ")
        };
        let _ = writeln!(text, "once     in k trials  {}", chances(&found.pass_at_k));
        let _ = writeln!(text, "always   in k trials  {}", chances(&found.pass_hat_k));
    }
    if let Some(mde) = found.mde {
        let _ = writeln!(
            text,
            "detects  a change of {:.2} or more with {:.0} % power",
            mde.value,
            mde.power * 100.0
        );
    }
    if let Some(found) = &found.baseline {
        let _ = writeln!(
            text,
            "change   against {}: {} fixed, {} broke",
            found.run_id, found.fixed, found.broken
        );
        if let Some(p) = found.mcnemar_p {
            let _ = writeln!(
                text,
                "         p = {p:.3} (McNemar test of broke against fixed)"
            );
        }
        text.push_str(&difference(found, colors));
    }
    text.push_str(&noise(found, colors));
    for reason in &found.gate.reasons {
        let _ = writeln!(text, "         {reason}");
    }
    text
}

fn in_words(estimate: &Estimate) -> String {
    let limits = estimate.low.zip(estimate.high);
    let limits = limits.map_or_else(
        || "no interval".to_owned(),
        |(low, high)| format!("{:.3} to {:.3} at 95 %", low.max(0.0), high.min(1.0)),
    );
    let method = match estimate.method {
        Method::Wilson => "Wilson",
        Method::T => "Student",
        Method::ClusteredT => "Student over tasks",
        Method::Widest => "widest of Wilson, Clopper-Pearson and Student",
    };
    format!("{:.3}  {limits} ({method})", estimate.value)
}

/// One line about the significance of the score, or nothing.
pub fn noise(statistics: &Statistics, colors: Colors) -> String {
    let gate = &statistics.gate;
    let (Some(score), Some(low), Some(high)) = (statistics.score, gate.low, gate.high) else {
        return String::new();
    };
    let threshold = gate.threshold;
    let shown = match gate.verdict {
        GateVerdict::Pass => colors.good(&format!("significantly above {threshold:.2}")),
        GateVerdict::Fail => colors.bad(&format!("significantly below {threshold:.2}")),
        GateVerdict::Inconclusive => {
            colors.doubtful(&format!("too few tasks to decide about {threshold:.2}"))
        }
    };
    let runs = match gate.attempts.run_ids.len() {
        0 | 1 => String::new(),
        runs => format!(" in {runs} runs"),
    };
    format!(
        "noise   {:.2} of {}{runs}: {:.2} to {:.2} at 95 %; {shown}\n",
        gate.score.unwrap_or(score.value),
        tasks(statistics.n_tasks),
        low.max(0.0),
        high.min(1.0)
    )
}

/// One line about the significance of a comparison, or nothing.
pub fn difference(found: &Comparison, colors: Colors) -> String {
    let (Some(change), Some(low), Some(high)) = (found.mean_difference, found.low, found.high)
    else {
        return String::new();
    };
    let shown = match found.verdict {
        RegressionVerdict::Regressed => colors.bad("significantly worse"),
        RegressionVerdict::NotWorse => colors.good("not worse"),
        RegressionVerdict::Inconclusive => colors.doubtful("undecided"),
    };
    format!(
        "  noise {change:+.2} over {}, paired: {low:+.2} to {high:+.2} at 90 %; {shown} (margin {:.2})\n",
        tasks(found.n_paired),
        found.margin,
        low = low.max(-1.0),
        high = high.min(1.0),
    )
}
