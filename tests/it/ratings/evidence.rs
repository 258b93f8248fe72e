//! Random evidence from a seed: every event type, every status, ties, duplicates and stress tests.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

pub const AGENT: &str = "agent-1";
const ASSESSMENT: &str = "assessment-1";
const DOMAINS: [&str; 5] = ["code", "research", "legal", "analysis", "gardening"];
const TOOLS: [&str; 4] = ["shell", "search", "read", "write"];
const DAY: i64 = 86_400;

/// SplitMix64 gives the same sequence everywhere and always, unlike a library's generator.
pub struct Dice(u64);

impl Dice {
    pub fn of(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0..n.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let place = self.below(of.len() as u64);
        &of[usize::try_from(place).unwrap()]
    }

    /// 0, 0.05 … 1.
    fn share(&mut self) -> f64 {
        self.below(21) as f64 / 20.0
    }

    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for place in (1..all.len()).rev() {
            let other = usize::try_from(self.below(place as u64 + 1)).unwrap();
            all.swap(place, other);
        }
    }
}

fn window_end() -> Timestamp {
    "2026-06-30T12:00:00Z".parse().unwrap()
}

fn before_end(seconds: i64) -> Timestamp {
    window_end() - SignedDuration::from_secs(seconds)
}

struct Maker<'a> {
    dice: &'a mut Dice,
    events: Vec<Value>,
}

impl Maker<'_> {
    fn add(&mut self, kind: &str, at: Timestamp, active: Option<&str>, mut data: Value) {
        if let Some(assessment) = active {
            data["assessment_id"] = json!(assessment);
        }
        let mut event = json!({"agent_id": AGENT, "type": kind, "timestamp": at, "data": data});
        if self.dice.percent(70) {
            event["id"] = json!(format!("e{}", self.events.len()));
        }
        self.events.push(event);
        // Sent twice: once with the same content, once with other content.
        if self.dice.percent(3) {
            let mut again = self.events.last().unwrap().clone();
            if self.dice.percent(50) {
                again["timestamp"] = json!(at + SignedDuration::from_secs(7));
            }
            self.events.push(again);
        }
    }

    fn maybe(
        &mut self,
        data: &mut Value,
        chance: u64,
        name: &str,
        value: impl FnOnce(&mut Dice) -> Value,
    ) {
        if self.dice.percent(chance) {
            data[name] = value(self.dice);
        }
    }

    fn task(&mut self, n: usize) {
        let task = format!("task-{n}");
        let active = match self.dice.below(100) {
            0..15 => Some(ASSESSMENT),
            15..18 => Some("assessment-0"),
            _ => None,
        };
        // Whole hours now and then, so that events coincide with each other and with day
        // boundaries.
        let seconds = if self.dice.percent(20) {
            i64::try_from(self.dice.below(33)).unwrap() * DAY
        } else {
            i64::try_from(self.dice.below(33 * 24)).unwrap() * 3600
                + i64::try_from(self.dice.below(7)).unwrap()
        };
        let at = if active.is_some() {
            before_end(-seconds / 20)
        } else {
            before_end(seconds)
        };
        let hour = SignedDuration::from_hours(1);
        if self.dice.percent(80) {
            let begun = if self.dice.percent(10) {
                hour * 24 * 20
            } else {
                hour
            };
            self.assigned(&task, at - begun, active);
        }
        if self.dice.percent(90) {
            self.completed(&task, at, active);
            if self.dice.percent(8) {
                self.completed(&task, at + hour, active);
            }
        }
        while self.dice.percent(18) {
            let mut data = json!({"task_id": task, "revision_number": 1 + self.dice.below(3),
                "reason_code": self.dice.pick(&["critical", "major", "minor"]), "changes": null});
            self.maybe(&mut data, 40, "cause", |dice| {
                json!(dice.pick(&["error", "scope_change", "preference"]))
            });
            self.add("task_revised", at + hour * 2, active, data);
        }
        while self.dice.percent(30) {
            let data = json!({"task_id": task, "tool": self.dice.pick(&TOOLS), "success": self.dice.percent(70),
                "unnecessary": self.dice.percent(20), "error_recovered": self.dice.pick(&[json!(null), json!(true), json!(false)])});
            self.add("tool_invoked", at - hour / 2, active, data);
        }
        while self.dice.percent(20) {
            let mut data = self.decision();
            data["task_id"] = json!(task);
            self.add("delegation_decision", at - hour / 3, active, data);
        }
        while self.dice.percent(20) {
            let data = json!({"task_id": task, "delegate_agent_id": "helper", "revision_needed": self.dice.percent(30),
                "outcome": self.dice.pick(&["success", "partial", "failure"])});
            self.add("delegation_outcome", at - hour / 4, active, data);
        }
        if self.dice.percent(20) {
            self.orchestration(&task, at, active);
        }
    }

    fn assigned(&mut self, task: &str, at: Timestamp, active: Option<&str>) {
        let mut data = json!({"task_id": task, "complexity_level": 1 + self.dice.below(5),
            "domain": self.dice.pick(&DOMAINS), "assigned_at": at});
        self.maybe(&mut data, 25, "task_group", |dice| {
            json!(format!("group-{}", dice.below(3)))
        });
        self.maybe(&mut data, 25, "baseline_seconds", |dice| {
            json!(60 + dice.below(4000))
        });
        self.maybe(&mut data, 25, "autonomy_level", |dice| json!(dice.below(4)));
        self.maybe(&mut data, 10, "learning_eligible", |dice| {
            json!(dice.percent(50))
        });
        self.add("task_assigned", at, active, data);
    }

    fn completed(&mut self, task: &str, at: Timestamp, active: Option<&str>) {
        let statuses = [
            "accepted",
            "accepted",
            "accepted",
            "accepted",
            "accepted",
            "partial",
            "rejected",
            "failed",
            "escalated",
            "cancelled",
        ];
        let errors: Vec<Value> = (0..self.dice.below(3))
            .map(|_| match self.dice.below(5) {
                0 => json!("it went wrong"),
                1 => json!({"code": "x"}),
                _ => json!({"severity": self.dice.pick(&["critical", "major", "minor"])}),
            })
            .collect();
        let errors = if self.dice.percent(60) {
            Vec::new()
        } else {
            errors
        };
        let mut data = json!({"task_id": task, "completion_status": self.dice.pick(&statuses),
            "time_to_complete_seconds": self.dice.below(6000), "errors": errors,
            "revision_count": if self.dice.percent(70) { 0 } else { self.dice.below(4) }});
        self.maybe(&mut data, 30, "complexity_level", |dice| {
            json!(1 + dice.below(5))
        });
        self.maybe(&mut data, 30, "domain", |dice| json!(dice.pick(&DOMAINS)));
        self.maybe(&mut data, 40, "milestone_fraction", |dice| {
            json!(dice.share())
        });
        self.maybe(&mut data, 30, "quality_score", |dice| json!(dice.share()));
        self.maybe(&mut data, 15, "human_intervention", |dice| {
            json!(dice.percent(60))
        });
        self.maybe(&mut data, 30, "autonomy_level", |dice| json!(dice.below(4)));
        self.maybe(&mut data, 15, "task_group", |dice| {
            json!(format!("group-{}", dice.below(3)))
        });
        self.maybe(&mut data, 10, "learning_eligible", |dice| {
            json!(dice.percent(50))
        });
        self.maybe(&mut data, 40, "review_checklist", |dice| {
            let mut items = json!({});
            for item in ["tests", "docs", "style"] {
                if dice.percent(60) {
                    items[item] = dice
                        .pick(&[json!(true), json!(true), json!(false), json!(null)])
                        .clone();
                }
            }
            items
        });
        self.maybe(&mut data, 30, "tools_used", |dice| {
            let mut used = Vec::new();
            for tool in TOOLS {
                if dice.percent(40) {
                    let invocations = dice.below(8);
                    let successes = dice.below(invocations + 1);
                    let mut one =
                        json!({"tool": tool, "invocations": invocations, "successes": successes});
                    if dice.percent(70) {
                        one["unnecessary"] = json!(dice.below(invocations + 1));
                        one["errors_recovered"] = json!(dice.below(4));
                    }
                    used.push(one);
                }
            }
            json!(used)
        });
        if self.dice.percent(15) {
            data["delegation_decisions"] = json!([self.decision()]);
        }
        self.add("task_completed", at, active, data);
    }

    fn decision(&mut self) -> Value {
        let mut data = json!({"task_fragment": self.dice.pick(&["f", "g"]),
            "decision": self.dice.pick(&["self", "delegate"]),
            "delegate_to": self.dice.pick(&[json!(null), json!("helper"), json!("other")]),
            "ground_truth": self.dice.pick(&[json!(null), json!("self"), json!("delegate"), json!("delegate")])});
        self.maybe(&mut data, 40, "correct", |dice| json!(dice.percent(60)));
        self.maybe(&mut data, 25, "selection_score", |dice| json!(dice.share()));
        self.maybe(&mut data, 40, "optimal_delegates", |dice| {
            json!([dice.pick(&["helper", "third"])])
        });
        self.maybe(&mut data, 50, "domain", |dice| json!(dice.pick(&DOMAINS)));
        data
    }

    fn orchestration(&mut self, task: &str, at: Timestamp, active: Option<&str>) {
        let graphs = [
            json!({"a": [], "b": ["a"], "c": ["a"]}),
            json!({"a": [], "b": ["a"], "c": ["b"]}),
            json!({"a": ["b"], "b": ["a"]}),
            json!({"c": ["a", "b"]}),
            json!({}),
        ];
        let stages = [
            json!([["a"], ["b", "c"]]),
            json!([["a"], ["b"], ["c"]]),
            json!([["a", "b"], ["c"]]),
            json!([["a"], [], ["b"], ["b"]]),
            json!([]),
        ];
        if self.dice.percent(80) {
            let mut data = json!({"task_id": task, "agents_involved": ["a", "b", "c"],
                "dependency_graph": self.dice.pick(&graphs), "parallel_groups": self.dice.pick(&stages)});
            self.maybe(&mut data, 30, "workflow_design_score", |dice| {
                json!(dice.share())
            });
            self.maybe(&mut data, 30, "communication_clarity_score", |dice| {
                json!(dice.share())
            });
            self.add(
                "orchestration_plan",
                at - SignedDuration::from_mins(10),
                active,
                data,
            );
        }
        if self.dice.percent(85) {
            let mut data = json!({"task_id": task, "outcome": self.dice.pick(&["success", "partial", "failure"]),
                "failures_injected": self.dice.below(3), "failures_recovered": self.dice.below(3),
                "synthesis_quality_score": null});
            if self.dice.percent(70) {
                data["synthesis_quality_score"] = json!(self.dice.share());
            }
            self.maybe(&mut data, 30, "workflow_design_score", |dice| {
                json!(dice.share())
            });
            self.maybe(&mut data, 60, "communication_clarity_score", |dice| {
                json!(dice.share())
            });
            self.add("orchestration_result", at, active, data);
        }
    }
}

/// Weights in thousandths that sum to 1, some of them 0.
fn weights(dice: &mut Dice, keys: &[&str]) -> Value {
    let mut left = 1000;
    let mut weights = json!({});
    for key in keys {
        let part = if dice.percent(15) {
            0
        } else {
            dice.below(left / 2 + 1)
        };
        weights[key] = json!(part as f64 / 1000.0);
        left -= part;
    }
    let last = keys.last().unwrap();
    let whole = (weights[last].as_f64().unwrap() * 1000.0).round() as u64 + left;
    weights[last] = json!(whole as f64 / 1000.0);
    weights
}

fn config(dice: &mut Dice) -> Value {
    let few = dice.percent(90);
    let mut config = json!({
        "minimum_tasks_performance": if few { 2 } else { 20 }, "minimum_tasks_capability": if few { 3 } else { 30 },
        "min_axis_weight_coverage": *dice.pick(&[0.6, 0.3, 0.0, 0.85]),
    });
    let mut rule = |chance, name: &str, value: Value| {
        if dice.percent(chance) {
            config[name] = value;
        }
    };
    rule(
        20,
        "recency_weights",
        json!({"0_2_days": 1.0, "3_9_days": 0.5, "10_20_days": 0.25}),
    );
    rule(
        15,
        "error_severity_weights",
        json!({"critical": 1.0, "major": 0.4, "minor": 0.05}),
    );
    rule(15, "error_baseline_per_task", json!(0.75));
    rule(15, "open_task_grace_seconds", json!(3600));
    rule(
        15,
        "baseline_seconds_by_domain",
        json!({"code": {"1": 500, "3": 2500}, "legal": {"2": 90}}),
    );
    rule(
        15,
        "baseline_seconds_by_complexity",
        json!({"2": 700, "4": 3000}),
    );
    rule(15, "consistency_min_group_size", json!(3));
    rule(20, "review_checklist_items", json!(["tests", "docs"]));
    rule(20, "min_evidence_samples", json!(1));
    rule(15, "level_pass_threshold", json!(0.5));
    rule(15, "domain_pass_threshold", json!(0.7));
    rule(30, "learning_min_tasks", json!(3));
    rule(15, "learning_full_improvement", json!(0.2));
    rule(20, "min_subscore_weight", json!(0.4));
    rule(
        30,
        "capability_matrix",
        json!({"code": ["helper"], "legal": ["third", "other"]}),
    );
    rule(15, "domain_taxonomy", json!(["code", "legal", "music"]));
    if dice.percent(20) {
        let keys = [
            "task_completion_rate",
            "accuracy",
            "speed",
            "consistency",
            "review_compliance",
        ];
        config["performance_weights"] = weights(dice, &keys);
    }
    if dice.percent(20) {
        let keys = [
            "domain_breadth",
            "complexity_ceiling",
            "tool_proficiency",
            "autonomy_level",
            "learning_rate",
            "delegation_capability",
            "orchestration_skills",
        ];
        config["capability_weights"] = weights(dice, &keys);
    }
    config
}

fn overrides(dice: &mut Dice, events: &[Value]) -> Value {
    let mut all = Vec::new();
    while dice.percent(30) && !events.is_empty() {
        let event = dice.pick(events);
        let task = &event["data"]["task_id"];
        all.push(match dice.below(3) {
            0 => json!({"type": "exclude_task", "task_id": task}),
            1 => json!({"type": "revision_not_error", "task_id": task, "revision_number": 1 + dice.below(2)}),
            _ if event["type"] == "task_completed" && event.get("id").is_some() => {
                json!({"type": "set_field", "event_id": event["id"], "field": "completion_status", "value": "accepted"})
            }
            _ => continue,
        });
    }
    json!(all)
}

/// The input of a vector of the kind `assessment`.
pub fn input(seed: u64) -> Value {
    let mut dice = Dice::of(seed);
    let tasks = usize::try_from(1 + dice.below(24)).unwrap();
    let mut maker = Maker {
        dice: &mut dice,
        events: Vec::new(),
    };
    for n in 0..tasks {
        maker.task(n);
    }
    let mut events = maker.events;
    dice.shuffle(&mut events);
    let mut assessment = json!({"id": ASSESSMENT, "window_start": before_end(30 * DAY), "window_end": window_end(),
        "type": dice.pick(&["full", "full", "full", "passive_only", "stress_test_only", "single_dimension"])});
    if assessment["type"] == "single_dimension" {
        let dimensions = [
            "task_completion_rate",
            "accuracy",
            "speed",
            "consistency",
            "review_compliance",
            "domain_breadth",
            "complexity_ceiling",
            "tool_proficiency",
            "autonomy_level",
            "learning_rate",
            "delegation_capability",
            "orchestration_skills",
        ];
        assessment["dimension"] = json!(dice.pick(&dimensions));
    }
    let overrides = overrides(&mut dice, &events);
    json!({"assessment": assessment, "config": config(&mut dice), "overrides": overrides, "events": events,
        "previous": {"performance": {"composite_score": 0.6, "dimensions": {"speed": 0.4, "accuracy": 0.9}},
            "capability": {"composite_score": 0.5, "dimensions": {"learning_rate": 0.1}}}})
}
