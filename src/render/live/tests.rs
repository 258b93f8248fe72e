use serde_json::json;

use super::*;
use crate::render::ink::Ink;

/// A log that grows.
#[derive(Default)]
struct Log {
    live: Live,
    sequence: u64,
    now: Duration,
}

impl Log {
    fn event(&mut self, kind: &str, task: Option<&str>, payload: Value) -> &mut Self {
        self.sequence += 1;
        let mut event = json!({
            "eventId": format!("evt_{}", self.sequence), "runId": "run_1", "type": kind, "sequence": self.sequence,
            "timestamp": "2026-01-01T00:00:00.000000Z", "schemaVersion": 1, "engineVersion": "1", "payload": payload,
        });
        if let Some(task) = task {
            event["nodeId"] = json!(task);
        }
        self.live.take(&event, self.now);
        self
    }

    fn of(tasks: usize) -> Self {
        let mut log = Self::default();
        log.event(
            "eval.started",
            None,
            json!({"suiteId": "vendor.acme.evals.triage", "suiteVersion": "1.0.0", "taskCount": tasks, "modes": ["golden"]}),
        );
        log
    }

    fn begin(&mut self, task: &str) -> &mut Self {
        self.event(
            "agent.invocation.started",
            Some(task),
            json!({"invocationId": task, "agentId": "a", "source": "run-api", "toolSurfaceCount": 0, "memoryBound": false}),
        )
    }

    fn after(&mut self, seconds: u64) -> &mut Self {
        self.now += Duration::from_secs(seconds);
        self
    }

    fn usage(&mut self, task: &str, cost: f64) -> &mut Self {
        self.event(
            "provider.usage",
            Some(task),
            json!({"provider": "openai", "model": "small-1", "inputTokens": 10, "outputTokens": 5, "totalTokens": 15,
                "costEstimateUsd": cost, "currency": "USD"}),
        )
    }

    fn end(&mut self, task: &str, score: f64) -> &mut Self {
        self.event(
            "eval.scored",
            Some(task),
            json!({"taskId": task, "score": score, "passed": score >= 1.0, "costUsd": 0.001, "latencyMs": 1500}),
        )
    }

    fn troubled(&mut self, kind: &str, task: &str, reason: &str) -> &mut Self {
        self.event(kind, Some(task), json!({"taskId": task, "reason": reason}))
            .end(task, 0.0)
    }

    fn shown(&self, width: u16, rows: u16) -> String {
        let style = Style {
            table: true,
            width: Some(width),
            ..Style::default()
        };
        let live = &self.live;
        format!(
            "{}\n{}",
            live.line(style),
            live.tasks(self.now, Some(rows), style)
        )
    }
}

/// A run in which everything is going on.
fn busy() -> Log {
    let mut log = Log::of(6);
    log.begin("clock-in-down")
        .usage("clock-in-down", 0.001)
        .end("clock-in-down", 1.0);
    log.begin("refund-twice")
        .begin("gdpr-request")
        .begin("slow-report-of-a-name-that-is-longer-than-any");
    log.troubled(
        "touchstone.task.failed",
        "refund-twice",
        "output_schema_violation",
    );
    log.after(3)
        .usage("gdpr-request", 0.000_2)
        .event(
            "agent.toolCalled",
            Some("gdpr-request"),
            json!({"agentId": "a", "toolName": "crm:account.lookup", "callId": "1"}),
        )
        .begin("thanks")
        .after(61);
    log.troubled("touchstone.task.unjudged", "thanks", "timeout");
    log
}

#[test]
fn a_suite_that_fits_is_shown_whole() {
    insta::assert_snapshot!("wide", busy().shown(120, 40));
}

#[test]
fn a_narrow_terminal_gets_no_row_of_two_lines() {
    let text = busy().shown(60, 40);
    assert!(
        text.lines().all(|line| line.chars().count() <= 60),
        "{text}"
    );
    assert_eq!(
        text.lines()
            .filter(|line| line.contains("gdpr-request"))
            .count(),
        1,
        "{text}"
    );
    insta::assert_snapshot!("narrow", text);
}

#[test]
fn of_a_large_suite_the_tasks_under_way_and_the_last_in_trouble_are_shown() {
    let mut log = Log::of(500);
    for n in 0..400 {
        let task = format!("task-{n:03}");
        log.begin(&task);
        match n % 10 {
            7 => log.troubled("touchstone.task.failed", &task, "output_not_json"),
            _ => log.end(&task, 1.0),
        };
    }
    for n in 400..464 {
        log.begin(&format!("task-{n:03}"));
    }
    let text = log.shown(100, 30);
    let shows = |task: &str| text.contains(task);
    assert!(text.lines().count() <= 30, "{text}");
    assert!(text.starts_with("✓ 360  ✗ 40  ? 0  score 0.90"), "{text}");
    assert!(
        shows("task-397") && shows("task-387"),
        "the last that failed: {text}"
    );
    assert!(!shows("task-398") && !shows("task-007"), "{text}");
    assert!(shows("task-400"), "the ones that take longest: {text}");
    assert!(text.contains("more under way"), "{text}");
}

#[test]
fn outcomes_have_colours_and_nothing_else_has_changed() {
    let log = busy();
    let plain = Style {
        table: true,
        width: Some(100),
        ..Style::default()
    };
    let coloured = Style {
        ink: Ink::new(true),
        ..plain
    };
    let text = log.live.tasks(log.now, Some(40), coloured);
    assert!(text.contains("\u{1b}["), "{text:?}");
    assert!(!log.live.tasks(log.now, Some(40), plain).contains('\u{1b}'));
}

#[test]
fn what_cannot_be_read_shows_nothing_and_ends_nothing() {
    let mut log = Log::of(2);
    log.live.take(
        &json!({"type": "eval.scored", "sequence": 99}),
        Duration::ZERO,
    );
    log.live.take(&json!("no event"), Duration::ZERO);
    log.event("vendor.unheard-of", None, json!({}))
        .begin("a")
        .end("a", 1.0);
    assert_eq!((log.live.planned(), log.live.ended()), (Some(2), 1));
}
