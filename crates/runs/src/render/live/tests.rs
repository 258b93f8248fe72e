use serde_json::json;

use crate::render::live::*;
use crate::render::sample;

const BEGAN: Timestamp = Timestamp::constant(1_800_000_000, 0);

/// Builds a log event by event.
#[derive(Default)]
struct Log {
    live: Live,
    sequence: u64,
    /// The time on the log's clock.
    now: Duration,
}

impl Log {
    fn event(&mut self, kind: &str, task: Option<&str>, payload: Value) -> &mut Self {
        self.sequence += 1;
        let mut event = json!({
            "eventId": format!("evt_{}", self.sequence), "runId": "run_1", "type": kind, "sequence": self.sequence,
            "timestamp": BEGAN + self.now, "schemaVersion": 1, "engineVersion": "1", "payload": payload,
        });
        if let Some(task) = task {
            event["nodeId"] = json!(task);
        }
        self.live.apply(&event, self.now);
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
            width: Some(width),
            ..sample::TERMINAL
        };
        let live = &self.live;
        format!(
            "{}\n{}",
            live.line(style),
            live.tasks(self.now, Some(rows), style)
        )
    }
}

/// A run in many states at once.
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
fn unjudged_tasks_have_no_score_and_without_an_answer_there_is_no_cost() {
    let mut log = Log::of(1);
    log.begin("thanks");
    assert!(!log.shown(120, 40).contains('$'));
    log.troubled("touchstone.task.unjudged", "thanks", "connect");
    let shown = log.shown(120, 40);
    assert!(shown.contains("score –"), "{shown}");
    assert!(!shown.contains('$') && !shown.contains("0.00"), "{shown}");
}

#[test]
fn a_suite_that_fits_is_shown_whole() {
    insta::assert_snapshot!("wide", busy().shown(120, 40));
}

#[test]
fn rows_fit_on_one_line_of_a_narrow_terminal() {
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
fn a_large_suite_shows_running_and_recently_failed_tasks() {
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
    assert!(text.contains("more running"), "{text}");
}

#[test]
fn ended_tasks_are_counted_and_forgotten() {
    let mut log = Log::of(5000);
    log.begin("runs").usage("runs", 0.5);
    for n in 0..1000 {
        let task = format!("task-{n}");
        log.begin(&task).usage(&task, 0.001);
        log.end(&task, if n < 500 { 1.0 } else { 0.0 });
        let outcome = match n < 500 {
            true => TaskOutcome::Passed,
            false => TaskOutcome::Failed,
        };
        let found = log.live.outcome(&TaskId::from(task));
        assert_eq!(found.map(|(outcome, _)| outcome), Some(outcome));
        assert!(log.live.state.eval.tasks.len() <= KEPT + 2);
    }
    let text = log.shown(100, 30);
    assert!(
        text.starts_with("✓ 500  ✗ 500  ? 0  score 0.50  $1.5"),
        "{text}"
    );
    assert!(text.contains("task-999") && text.contains("runs"), "{text}");
}

#[test]
fn outcomes_are_coloured_only_on_colour_terminals() {
    let log = busy();
    let tasks = |style| log.live.tasks(log.now, Some(40), style);
    let text = tasks(sample::coloured());
    assert!(text.contains("\u{1b}["), "{text:?}");
    assert!(!tasks(sample::TERMINAL).contains('\u{1b}'));
}

#[test]
fn unreadable_events_are_ignored() {
    let mut log = Log::of(2);
    log.live.apply(
        &json!({"type": "eval.scored", "sequence": 99}),
        Duration::ZERO,
    );
    log.live.apply(&json!("no event"), Duration::ZERO);
    log.event("vendor.unheard-of", None, json!({}))
        .begin("a")
        .end("a", 1.0);
    assert_eq!((log.live.planned(), log.live.ended()), (Some(2), 1));
}

impl Log {
    /// Runs one task of this duration alone.
    fn task(&mut self, name: &str, seconds: u64) -> &mut Self {
        self.begin(name).after(seconds).end(name, 1.0)
    }

    fn left(&self) -> Option<u64> {
        self.live.left(self.now).map(|left| left.as_secs())
    }
}

#[test]
fn the_remaining_time_is_estimated_from_finished_tasks() {
    let mut log = Log::of(10);
    assert_eq!(log.left(), None, "nothing has begun");
    log.begin("a").after(20);
    assert_eq!(log.left(), None, "nothing has ended");
    log.end("a", 1.0);
    assert_eq!(log.left(), Some(180));
    log.task("b", 10);
    assert_eq!(log.left(), Some(120), "15 s each, eight to come");
    log.after(5);
    assert_eq!(log.left(), Some(115), "it counts down");
    log.after(600);
    assert_eq!(
        log.left(),
        Some(105),
        "the seven behind a slow one take as long as ever"
    );
    for task in 2..10 {
        log.task(&format!("t-{task}"), 1);
    }
    assert_eq!(log.left(), None, "there is nothing to come");
}

#[test]
fn concurrent_tasks_shorten_the_remaining_time() {
    let mut log = Log::of(40);
    for round in 0..5 {
        for lane in 0..4 {
            log.begin(&format!("t-{round}-{lane}"));
        }
        log.after(12);
        for lane in 0..4 {
            log.end(&format!("t-{round}-{lane}"), 1.0);
        }
    }
    assert_eq!(log.left(), Some(60), "3 s each");
}

#[test]
fn reused_results_do_not_shorten_the_estimated_time() {
    let mut log = Log::of(100);
    for n in 0..90 {
        log.end(&format!("taken-over-{n}"), 1.0);
    }
    assert_eq!(log.left(), None);
    log.task("own", 30);
    assert_eq!(log.left(), Some(270), "nine to come");
}

#[test]
fn a_late_observer_estimates_from_the_timestamps_of_the_log() {
    let mut log = Log::of(4);
    log.task("a", 60).task("b", 60);
    let mut late = Log::of(4);
    // All events arrive at once, whatever their timestamps.
    for (sequence, kind, task, second) in [
        (2, "agent.invocation.started", "a", 0),
        (3, "eval.scored", "a", 60),
        (4, "agent.invocation.started", "b", 60),
        (5, "eval.scored", "b", 120),
    ] {
        let payload = match kind {
            "eval.scored" => json!({"taskId": task, "score": 1.0, "passed": true}),
            _ => {
                json!({"invocationId": task, "agentId": "a", "source": "run-api", "toolSurfaceCount": 0, "memoryBound": false})
            }
        };
        late.live.apply(
            &json!({
                "eventId": format!("evt_{sequence}"), "runId": "run_1", "type": kind, "sequence": sequence,
                "nodeId": task, "timestamp": BEGAN + Duration::from_secs(second), "schemaVersion": 1,
                "engineVersion": "1", "payload": payload,
            }),
            Duration::ZERO,
        );
    }
    assert_eq!(late.left(), Some(120));
    assert_eq!(late.left(), log.left());
}

/// The log of a foreign host cannot control the terminal.
#[test]
fn control_characters_in_the_log_do_not_reach_the_terminal() {
    const EVIL: &str = "x\u{1b}[2J\u{1b}]0;mine\u{7}\u{9b}1A\r\n\u{202e}y\u{2028}z";
    let mut log = Log::of(4);
    log.begin("calls").event(
        "agent.toolCalled",
        Some("calls"),
        json!({"agentId": "a", "toolName": EVIL, "callId": "1"}),
    );
    log.begin(EVIL);
    log.begin("failed")
        .troubled("touchstone.task.failed", "failed", EVIL);
    log.begin("unjudged")
        .troubled("touchstone.task.unjudged", "unjudged", EVIL);
    let text = log.shown(200, 40);
    assert_eq!(
        text.matches("x [2J").count(),
        4,
        "all four are shown: {text:?}"
    );
    let acts = |c: &char| c.is_control() && *c != '\n' || ['\u{202e}', '\u{2028}'].contains(c);
    assert_eq!(text.chars().find(acts), None, "{text:?}");
    // The status line and the four tasks.
    assert_eq!(
        text.lines().filter(|line| line.contains("x [2J")).count(),
        4,
        "{text:?}"
    );
}
