//! Rows of `suite export --format jsonl`, which hold everything of a task.

use serde_json::{Map, Value, json};

use super::draft::{Draft, NewTask};
use super::rows::{Row, Rows};
use super::scoring::{Expectation, answer, any_answer, check_task};
use touchstone_openwop::suite::MatchStrategy;

/// Members of a row that belong to the scoring document.
const SCORING: [&str; 5] = [
    "assertions",
    "threshold",
    "conversation",
    "attachments",
    "tags",
];
/// All other members of a row.
const OF_SUITE: [&str; 6] = ["id", "input", "expected", "match", "rubric", "fixtures"];

/// Whether the rows were exported from a suite.
pub fn is_export(rows: &Rows) -> bool {
    let is_json = rows.notation.starts_with("JSON");
    is_json && !rows.rows.is_empty() && rows.rows.iter().all(|row| is_row(&row.value))
}

/// Every exported row has an id, an input, and either a comparison with an answer or a rubric.
fn is_row(value: &Value) -> bool {
    let Some(members) = value.as_object() else {
        return false;
    };
    let has = |name: &str| members.contains_key(name);
    let is_golden = has("expected") && members.get("match").is_some_and(|it| strategy(it).is_ok());
    let is_rubric = members.get("rubric").is_some_and(Value::is_array);
    let is_known = |name: &String| {
        let mut known = OF_SUITE.iter().chain(&SCORING);
        known.any(|it| it == name)
    };
    has("id") && has("input") && (is_golden || is_rubric) && members.keys().all(is_known)
}

pub fn convert(rows: Rows, draft: &mut Draft) {
    for Row { place, value } in rows.rows {
        if let Err(reason) = add(&place, value, draft) {
            draft.skip(&place, &reason);
        }
    }
}

fn add(place: &str, value: Value, draft: &mut Draft) -> Result<(), String> {
    let Value::Object(mut row) = value else {
        return Err("a row that is not an object".to_owned());
    };
    let input = row
        .remove("input")
        .ok_or_else(|| "a row without `input`".to_owned())?;
    let name = row.remove("id").filter(|name| !name.is_null());
    let keeps_id = name.as_ref().and_then(Value::as_str).is_some_and(is_id);
    let expected = expected(&mut row, draft.strategy)?;
    let fixtures = row.remove("fixtures").filter(|it| !it.is_null());
    let entry: Map<String, Value> = SCORING
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), row.remove(name)?)))
        .filter(|(_, value)| !value.is_null())
        .collect();
    let entry = (!entry.is_empty()).then_some(Value::Object(entry));
    let mut task = json!({"taskId": "task", "input": input, "expected": expected});
    if let (Some(fixtures), Some(members)) = (fixtures, task.as_object_mut()) {
        members.insert("fixtures".to_owned(), fixtures);
    }
    check_task(&task, entry.as_ref())
        .map_err(|reason| format!("a row that is not a task: {reason}"))?;
    draft.report_unknown(place, "a row", &row);
    let Value::Object(mut task) = task else {
        return Ok(());
    };
    draft.add_task(NewTask {
        place,
        name: name.as_ref(),
        input: task.remove("input").unwrap_or_default(),
        expectation: Expectation {
            expected: task.remove("expected").unwrap_or_default(),
            scoring: entry,
        },
        fixtures: task.remove("fixtures"),
        keeps_id,
    });
    Ok(())
}

/// The `expected` of the suite.
fn expected(row: &mut Map<String, Value>, usual: MatchStrategy) -> Result<Value, String> {
    let how = row.remove("match").filter(|it| !it.is_null());
    let rubric = row.remove("rubric").filter(|it| !it.is_null());
    match (rubric, row.remove("expected"), how) {
        (Some(_), Some(_), _) => Err("a row with both `expected` and `rubric`".to_owned()),
        (Some(rubric), None, _) => Ok(json!({"kind": "rubric", "rubric": rubric})),
        (None, Some(value), Some(how)) => {
            let strategy = strategy(&how)?;
            Ok(json!({"kind": "golden", "match": {"strategy": strategy, "value": value}}))
        }
        (None, Some(value), None) => Ok(answer(usual, value)),
        (None, None, _) if row.contains_key("assertions") => Ok(any_answer()),
        (None, None, _) => Err("a row without `expected`, `rubric` or `assertions`".to_owned()),
    }
}

fn strategy(name: &Value) -> Result<MatchStrategy, String> {
    serde_json::from_value(name.clone())
        .map_err(|_| "a row whose `match` is not exact, contains or json-match".to_owned())
}

/// Whether a name is the id of a task already.
fn is_id(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.starts_with(is_allowed) && name.chars().all(|c| is_allowed(c) || c == '-')
}
