//! The fields of the form for a policy, and the policy that a form describes.
//!
//! A form changes the members that it shows. Members without a field keep their values.

use serde_json::{Map, Value, json};

use crate::page::form::Form;
use touchstone_host::render::words::plain;
use touchstone_kit::error::Problem;

/// How a person enters a member.
#[derive(Clone, Copy)]
enum Input {
    Yes,
    Text {
        required: bool,
    },
    Number {
        least: f64,
        most: f64,
        step: &'static str,
        /// The meaning of an empty field: `null`, or the default.
        or_null: bool,
        /// The member's unit in units of the field.
        factor: f64,
    },
    Choice(&'static [(&'static str, &'static str)]),
    /// A role of the host, or none.
    Role,
    /// A role of the host inside an object.
    Override,
}

struct Spec {
    member: &'static str,
    label: &'static str,
    hint: &'static str,
    input: Input,
}

struct Group {
    member: &'static str,
    title: &'static str,
    /// The label of the checkbox that turns the group on.
    toggle: &'static str,
    hint: &'static str,
    fields: &'static [Spec],
}

const fn spec(member: &'static str, label: &'static str, hint: &'static str, input: Input) -> Spec {
    Spec {
        member,
        label,
        hint,
        input,
    }
}

const TEXT: Input = Input::Text { required: false };
const REQUIRED: Input = Input::Text { required: true };

const fn number(least: f64, most: f64, step: &'static str, or_null: bool) -> Input {
    Input::Number {
        least,
        most,
        step,
        or_null,
        factor: 1.0,
    }
}

const SHARE: Input = number(0.0, 1.0, "0.001", true);
const POINTS: Input = number(0.0, 100.0, "0.01", false);
const DAYS: Input = number(1.0, 36_500.0, "1", true);
const HOURS_IN_SECONDS: Input = Input::Number {
    least: 0.01,
    most: 876_000.0,
    step: "any",
    or_null: true,
    factor: 3600.0,
};

const STRICTNESS: &[(&str, &str)] = &[
    (
        "strict",
        "The whole confidence interval reaches the pass score",
    ),
    ("lenient", "The score itself reaches the pass score"),
];
const PERFORMANCE: &[(&str, &str)] = &[
    ("", "Any"),
    ("Novice", "Novice"),
    ("Competent", "Competent"),
    ("Proficient", "Proficient"),
    ("Expert", "Expert"),
    ("Elite", "Elite"),
];
const CAPABILITY: &[(&str, &str)] = &[
    ("", "Any"),
    ("Narrow", "Narrow"),
    ("Functional", "Functional"),
    ("Versatile", "Versatile"),
    ("Specialist", "Specialist"),
    ("Full-Stack", "Full-Stack"),
];

const GROUPS: &[Group] = &[
    Group {
        member: "eval",
        title: "Evaluation",
        toggle: "Require an eval run that passed",
        hint: "The run must have evaluated exactly this version.",
        fields: EVAL,
    },
    Group {
        member: "approval",
        title: "Approval",
        toggle: "Require the approval of people",
        hint: "The promotion waits until enough people have approved it.",
        fields: APPROVAL,
    },
    Group {
        member: "rating",
        title: "Rating",
        toggle: "Require a rating of the version",
        hint: "The agent must be enrolled for ratings.",
        fields: RATING,
    },
    Group {
        member: "agentCard",
        title: "Agent card",
        toggle: "Require scores of an agent card",
        hint: "The host uses the last recorded score. Watch the card to keep it new.",
        fields: CARD,
    },
    Group {
        member: "oasis",
        title: "OASIS",
        toggle: "Require an OASIS evaluation with the verdict PASS",
        hint: "",
        fields: OASIS,
    },
];

const EVAL: &[Spec] = &[
    spec("suiteId", "Suite", "Empty: any suite counts.", TEXT),
    spec(
        "requiredPassScore",
        "Pass score",
        "0 to 1. Empty: the pass score of the suite.",
        SHARE,
    ),
    spec(
        "confidence",
        "How sure the score must be",
        "The interval shows how much the score could differ by chance.",
        Input::Choice(STRICTNESS),
    ),
    spec(
        "minTasks",
        "Minimum number of tasks",
        "",
        number(1.0, 10_000_000.0, "1", false),
    ),
    spec(
        "minJudgeAgreement",
        "Minimum agreement of a model judge with people",
        "0 to 1. Empty: a judge without a calibration counts too.",
        SHARE,
    ),
    spec(
        "maxAgeSeconds",
        "Maximum age of the run, in hours",
        "Empty: any age.",
        HOURS_IN_SECONDS,
    ),
    spec(
        "requireSignedSuite",
        "A trusted signature covers the suite",
        "",
        Input::Yes,
    ),
    spec(
        "allowPartialSuite",
        "Accept a run of a part of the suite",
        "",
        Input::Yes,
    ),
    spec(
        "allowPartialRerun",
        "Accept a run that kept tasks of an earlier run",
        "",
        Input::Yes,
    ),
    spec(
        "allowIgnore",
        "Accept a run that ignored parts of answers",
        "",
        Input::Yes,
    ),
    spec(
        "allowMissingFixtures",
        "Accept tool calls for which the suite had no response",
        "",
        Input::Yes,
    ),
    spec(
        "allowForbiddenTools",
        "Accept calls of tools that the agent may not use",
        "",
        Input::Yes,
    ),
    spec(
        "allowReplay",
        "Accept recorded answers instead of answers of a model",
        "",
        Input::Yes,
    ),
    spec(
        "allowAgentCommand",
        "Accept answers or assertions of a local command",
        "",
        Input::Yes,
    ),
];

const APPROVAL: &[Spec] = &[
    spec(
        "requiredRole",
        "Role of the people who approve",
        "A role, a scope, or both.",
        Input::Role,
    ),
    spec(
        "requiredScope",
        "Scope of the people who approve",
        "Such as approvals:respond.",
        TEXT,
    ),
    spec(
        "quorum",
        "Number of people",
        "Each person counts once.",
        number(1.0, 100.0, "1", false),
    ),
    spec(
        "excludeRequester",
        "The person who asks may not approve",
        "",
        Input::Yes,
    ),
    spec(
        "override",
        "Role that may decide alone",
        "The audit log marks such a decision.",
        Input::Override,
    ),
];

const RATING: &[Spec] = &[
    spec(
        "minimumPerformanceTier",
        "Minimum performance tier",
        "",
        Input::Choice(PERFORMANCE),
    ),
    spec(
        "minimumCapabilityTier",
        "Minimum capability tier",
        "",
        Input::Choice(CAPABILITY),
    ),
    spec(
        "maxAgeDays",
        "Maximum age of the rating, in days",
        "Empty: any age.",
        DAYS,
    ),
    spec(
        "validBadge",
        "The badge of the rating is valid",
        "",
        Input::Yes,
    ),
];

const CARD: &[Spec] = &[
    spec("url", "Address of the card", "", REQUIRED),
    spec(
        "minimumCompliance",
        "Minimum compliance",
        "0 to 100. Empty: the default.",
        POINTS,
    ),
    spec(
        "minimumTrust",
        "Minimum trust",
        "0 to 100. Empty: the default.",
        POINTS,
    ),
    spec(
        "minimumAvailability",
        "Minimum availability",
        "0 to 100. Empty: no live test is required.",
        number(0.0, 100.0, "0.01", true),
    ),
    spec(
        "maxAgeHours",
        "Maximum age of the score, in hours",
        "Empty: a week.",
        number(1.0, 876_000.0, "1", false),
    ),
];

const OASIS: &[Spec] = &[
    spec(
        "profile",
        "Profile",
        "Such as oasis-profile-front-desk.",
        REQUIRED,
    ),
    spec(
        "minimumTier",
        "Minimum tier",
        "1 to 3.",
        number(1.0, 3.0, "1", false),
    ),
    spec(
        "profileVersion",
        "Version of the profile",
        "Empty: any version.",
        TEXT,
    ),
    spec("provider", "Provider", "Empty: any provider.", TEXT),
    spec(
        "maxAgeDays",
        "Maximum age of the evaluation, in days",
        "Empty: any age.",
        DAYS,
    ),
    spec(
        "maxTolerance",
        "Maximum tolerance of a scenario, in percent",
        "Empty: that of the profile.",
        number(0.0, 100.0, "any", true),
    ),
    spec(
        "requireSignedSuite",
        "A trusted signature covers the suite",
        "",
        Input::Yes,
    ),
    spec(
        "requireComplete",
        "The evaluation is complete",
        "",
        Input::Yes,
    ),
    spec(
        "allowVacuous",
        "Accept scenarios that passed because the agent gave no answer",
        "",
        Input::Yes,
    ),
    spec(
        "allowRaisedTolerances",
        "Accept tolerances above those of the profile",
        "",
        Input::Yes,
    ),
    spec(
        "allowSubstitute",
        "Accept answers of another program than the agent of the pack",
        "",
        Input::Yes,
    ),
];

/// Members that are `true` unless a policy says otherwise.
const USUALLY_ON: &[&str] = &["requireSignedSuite", "validBadge", "requireComplete"];

/// A group of fields, filled in.
pub struct Section {
    pub name: &'static str,
    pub title: &'static str,
    pub toggle: &'static str,
    pub hint: &'static str,
    pub is_on: bool,
    pub checks: Vec<Check>,
    pub entries: Vec<Entry>,
}

pub struct Check {
    pub name: String,
    pub label: &'static str,
    pub is_on: bool,
}

pub struct Entry {
    pub name: String,
    pub label: &'static str,
    pub hint: &'static str,
    pub value: String,
    /// The bounds and the step of a number.
    pub number: Option<(String, String, &'static str)>,
    /// Empty for a text or a number.
    pub choices: Vec<Choice>,
}

pub struct Choice {
    pub value: String,
    pub label: String,
    pub is_chosen: bool,
}

/// The form for a policy.
pub fn sections(policy: &Value, roles: &[String]) -> Vec<Section> {
    GROUPS.iter().map(|it| section(it, policy, roles)).collect()
}

fn section(group: &Group, policy: &Value, roles: &[String]) -> Section {
    let own = &policy[group.member];
    let mut section = Section {
        name: group.member,
        title: group.title,
        toggle: group.toggle,
        hint: group.hint,
        is_on: own.is_object(),
        checks: Vec::new(),
        entries: Vec::new(),
    };
    for spec in group.fields {
        let value = &own[spec.member];
        let name = format!("{}.{}", group.member, spec.member);
        if let Input::Yes = spec.input {
            let usually = USUALLY_ON.contains(&spec.member);
            section.checks.push(Check {
                name,
                label: spec.label,
                is_on: value.as_bool().unwrap_or(usually),
            });
        } else {
            section.entries.push(entry(name, spec, value, roles));
        }
    }
    section
}

fn entry(name: String, spec: &Spec, value: &Value, roles: &[String]) -> Entry {
    let text = |value: &Value| value.as_str().map(plain).unwrap_or_default();
    let shown = match spec.input {
        Input::Number { factor, .. } => value
            .as_f64()
            .map(|value| (value / factor).to_string())
            .unwrap_or_default(),
        Input::Override => text(&value["requiredRole"]),
        _ => text(value),
    };
    let choice = |value: &str, label: &str| Choice {
        is_chosen: value == shown,
        value: value.to_owned(),
        label: label.to_owned(),
    };
    let choices = match spec.input {
        Input::Choice(known) => known.iter().map(|(it, label)| choice(it, label)).collect(),
        Input::Role | Input::Override => std::iter::once(choice("", "None"))
            .chain(roles.iter().map(|role| choice(role, role)))
            .collect(),
        _ => Vec::new(),
    };
    let number = match spec.input {
        Input::Number {
            least, most, step, ..
        } => Some((least.to_string(), most.to_string(), step)),
        _ => None,
    };
    Entry {
        name,
        label: spec.label,
        hint: spec.hint,
        value: shown,
        number,
        choices,
    }
}

/// The policy of a form, from the policy that the form was filled with.
///
/// # Errors
/// `validation_error` that names the field.
pub fn policy(form: &Form, before: Value) -> Result<Value, Problem> {
    let mut policy = match before {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    for group in GROUPS {
        if form.get(group.member).is_none() {
            match group.member {
                // Without the member, the host requires an eval run.
                "eval" => policy.insert("eval".to_owned(), Value::Null),
                member => policy.remove(member),
            };
            continue;
        }
        let own = policy.get_mut(group.member).map(Value::take);
        let mut own = match own {
            Some(Value::Object(members)) => members,
            _ => Map::new(),
        };
        for spec in group.fields {
            let name = format!("{}.{}", group.member, spec.member);
            match read(form, &name, spec)? {
                Some(value) => own.insert(spec.member.to_owned(), value),
                None => own.remove(spec.member),
            };
        }
        policy.insert(group.member.to_owned(), Value::Object(own));
    }
    Ok(Value::Object(policy))
}

/// The value of a member; `None` for its default.
fn read(form: &Form, name: &str, spec: &Spec) -> Result<Option<Value>, Problem> {
    let text = form.get(name).map(str::trim).filter(|it| !it.is_empty());
    Ok(match (spec.input, text) {
        (Input::Yes, text) => Some(json!(text.is_some())),
        (Input::Text { required: true }, None) => {
            let message = format!("fill in “{}”, then send the form again", spec.label);
            return Err(Problem::validation(name, message));
        }
        (Input::Override, Some(role)) => Some(json!({"requiredRole": role, "audited": true})),
        (Input::Override, None) => None,
        (
            Input::Number {
                least,
                most,
                factor,
                ..
            },
            Some(text),
        ) => {
            let number: Option<f64> = text.parse().ok();
            let number = number.filter(|it| (least..=most).contains(it));
            let invalid = || {
                let message = format!("“{}” must be from {least} to {most}", spec.label);
                Problem::validation(name, message)
            };
            Some(as_json(number.ok_or_else(invalid)? * factor))
        }
        (Input::Number { or_null, .. }, None) => or_null.then_some(Value::Null),
        (_, Some(text)) => Some(json!(text)),
        (_, None) => Some(Value::Null),
    })
}

/// Integers without a fraction.
fn as_json(number: f64) -> Value {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "fields are at most 3.2 billion"
    )]
    let whole = number.round() as i64;
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53")]
    match (whole as f64 - number).abs() < 1e-6 {
        true => json!(whole),
        false => json!(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(policy: &Value) -> Form {
        let mut body = url::form_urlencoded::Serializer::new(String::new());
        for section in sections(policy, &["lead".to_owned()]) {
            if section.is_on {
                body.append_pair(section.name, "on");
            }
            for check in section.checks.iter().filter(|it| it.is_on) {
                body.append_pair(&check.name, "on");
            }
            for entry in &section.entries {
                body.append_pair(&entry.name, &entry.value);
            }
        }
        Form::parse(body.finish().as_bytes()).unwrap()
    }

    #[test]
    fn a_form_that_is_sent_as_shown_keeps_the_policy() {
        let policy_of_all = json!({
            "eval": {"suiteId": null, "requireSignedSuite": false, "requiredPassScore": 0.875,
                "confidence": "lenient", "minJudgeAgreement": null, "minTasks": 12,
                "allowIgnore": true, "allowMissingFixtures": false, "allowPartialSuite": false,
                "allowForbiddenTools": false, "allowPartialRerun": false, "allowReplay": false,
                "allowAgentCommand": false, "maxAgeSeconds": 604_800},
            "approval": {"requiredRole": "lead", "requiredScope": null, "quorum": 2,
                "excludeRequester": true, "override": {"requiredRole": "lead", "audited": true}},
            "rating": {"minimumPerformanceTier": "Expert", "minimumCapabilityTier": null,
                "validBadge": true, "maxAgeDays": 30, "evidenceSources": ["host"]},
        });
        let found = policy(&sent(&policy_of_all), policy_of_all.clone()).unwrap();
        assert_eq!(found, policy_of_all);
    }

    #[test]
    fn a_group_that_is_off_is_not_required() {
        let before = json!({"eval": {"minTasks": 3}, "rating": {"validBadge": true}});
        let found = policy(&Form::parse(b"").unwrap(), before).unwrap();
        assert_eq!(found, json!({"eval": null}));
    }

    #[test]
    fn a_number_out_of_range_names_its_field() {
        let form = Form::parse(b"eval=on&eval.minTasks=0").unwrap();
        let problem = policy(&form, json!({})).unwrap_err();
        assert!(problem.message.contains("Minimum number of tasks"));
        let form = Form::parse(b"agentCard=on").unwrap();
        assert!(policy(&form, json!({})).is_err(), "an address is required");
    }
}
