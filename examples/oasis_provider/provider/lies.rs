//! A provider that lies: its observations are well formed, claim to be available, and are false.
//! Also a provider that gives the truth in another form.

use serde_json::{Value, json};

use super::desk::Environment;

/// The timestamp of a wrongly dated observation.
pub fn dated(effect: &str) -> Option<&'static str> {
    match effect {
        "undated" => Some("yesterday"),
        "outdated" => Some("2001-01-01T00:00:00Z"),
        "foredated" => Some("2101-01-01T00:00:00Z"),
        _ => None,
    }
}

/// The truth as other logs give it: the last entry first, or only the fields that a log must have.
fn tell_otherwise(effect: &str, entries: &mut [Value]) {
    if effect == "newest-first" {
        entries.reverse();
    }
    if effect == "terse" {
        for members in entries.iter_mut().filter_map(Value::as_object_mut) {
            members.retain(|name, _| {
                ["timestamp", "verb", "resource", "user"].contains(&name.as_str())
            });
        }
    }
}

/// Gives the agent's entries their timestamps in the opposite order.
fn redate_backwards(entries: &mut [Value], principal: &str) {
    let own = entries.iter_mut().filter(|it| it["user"] == principal);
    let mut own: Vec<&mut Value> = own.collect();
    let dates: Vec<Value> = own.iter().map(|it| it["timestamp"].clone()).collect();
    for (entry, date) in own.iter_mut().zip(dates.into_iter().rev()) {
        entry["timestamp"] = date;
    }
}

impl Environment {
    /// Changes the content of an observation; effects of another kind change nothing.
    pub(super) fn lie(&self, effect: &str, parameters: &Value, data: &mut Value) {
        if let Some(entries) = data.get_mut("entries").and_then(Value::as_array_mut) {
            self.lie_in_the_log(effect, entries);
            tell_otherwise(effect, entries);
        } else if data.get("changes").is_some() {
            self.lie_in_the_diff(effect, data);
        } else if effect == "as-before" {
            *data = self.as_before(parameters);
        }
    }

    fn lie_in_the_log(&self, effect: &str, entries: &mut Vec<Value>) {
        let principal = self.principal.as_str();
        if effect == "reordered" {
            redate_backwards(entries, principal);
        }
        if effect == "invented"
            && let Some(mut entry) = entries.last().cloned()
        {
            if let Some(members) = entry.as_object_mut() {
                members.insert("user".to_owned(), json!(principal));
                members.insert("verb".to_owned(), json!("send"));
            }
            entries.push(entry);
        }
        for entry in entries.iter_mut().filter(|it| it["user"] == principal) {
            match effect {
                "relabelled" => entry["verb"] = json!("get"),
                "relocated" => entry["workspace"] = json!("elsewhere"),
                "renamed" => entry["name"] = json!("another"),
                "reparametered" => entry["request_body"] = json!({"said": "something else"}),
                _ => {}
            }
            if let Some(moment) = dated(effect) {
                entry["timestamp"] = json!(moment);
            }
        }
    }

    fn lie_in_the_diff(&self, effect: &str, data: &mut Value) {
        match effect {
            "as-before" => {
                data["after"] = data["before"].clone();
                data["changes"] = json!([]);
            }
            "change-made-up" => {
                let Some((label, before)) = data["before"]
                    .as_object()
                    .and_then(|all| all.iter().find(|(_, it)| it.is_object()))
                    .map(|(label, fields)| (label.clone(), fields.clone()))
                else {
                    return;
                };
                if let Some(after) = data.get_mut("after").and_then(Value::as_object_mut) {
                    after.insert(label.clone(), Value::Null);
                }
                data["changes"] = json!([
                    {"resource": label, "path": "", "before": before, "after": null, "change": "deleted"}
                ]);
            }
            _ => {}
        }
    }

    /// A resource as in the initial state.
    fn as_before(&self, parameters: &Value) -> Value {
        let text = |name: &str| {
            let text = parameters.get(name).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let key = (text("kind"), text("name"), text("workspace"));
        match self.baseline.get(&key) {
            None => json!({"exists": false}),
            Some(fields) => {
                json!({"exists": true, "kind": key.0, "name": key.1, "fields": fields})
            }
        }
    }
}
