//! Our schemas and the published ones accept and reject the same documents.
//!
//! Both validate seeds (documents that use every member) and their mutations: every value replaced
//! by values of other types and by edge values, every member removed, every member of the published
//! schema inserted everywhere, items duplicated.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use touchstone_openwop::schema::Document;

use super::seeds;
use crate::support::published::Published;
use crate::support::reference::shared;

/// Documents whose published schema we copied. The body of `POST /v1/runs` has no published schema.
fn documents() -> Vec<Document> {
    Document::ALL
        .iter()
        .copied()
        // The OASIS schemas have separate vectors.
        .filter(|d| {
            !matches!(
                d,
                Document::CreateRun | Document::OasisVerdict | Document::OasisComputeInput
            )
        })
        .collect()
}

fn junk() -> Vec<Value> {
    let long = |n: usize| Value::from("x".repeat(n));
    let mut values = vec![
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(1),
        json!(-1),
        json!(0.5),
        json!(1.5),
        json!(2),
        json!(2.0),
        json!(3),
        json!(1e300),
        json!(""),
        json!("x"),
        json!("x\n"),
        json!("a.b"),
        json!("a b"),
        json!("1.0.0"),
        json!("1.0"),
        json!("1.0.0-rc.1+b"),
        json!("^1.0.0"),
        json!("1.0.0\n"),
        json!("community.x.pack"),
        json!("local.x.pack"),
        json!("Community.X.Pack"),
        json!("community.x"),
        json!("core.openwop.evals.x"),
        json!("core.openwop.evals.x\n"),
        json!("prompt:writer@1.0.0"),
        json!("acme.thing"),
        json!("core.thing"),
        json!("acme.thing.done"),
        json!("openwop.thing.done"),
        json!("sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="),
        json!("sha256-abc"),
        json!("/v1/packs/a/-/b.tgz"),
        json!("/v1/packs/a/-/b.sig"),
        json!("/elsewhere"),
        json!("2026-01-01T00:00:00Z"),
        json!("https://example.org"),
        json!([]),
        json!([1]),
        json!(["x"]),
        json!(["x", "x"]),
        json!([{}]),
        json!([[]]),
        json!({}),
        json!({"a": 1}),
        json!({"a": "1"}),
        json!({"optional": true}),
        json!({"a": {"optional": true}}),
        json!({"a": {"optional": 1}}),
    ];
    values.extend(
        [
            63, 64, 65, 100, 101, 128, 129, 200, 201, 256, 257, 500, 501, 512, 513, 1024, 1025,
            2001,
        ]
        .map(long),
    );
    values.push(Value::from(vec!["t"; 33]));
    values.push(Value::from(vec!["t"; 51]));
    values.push(Value::from(vec!["t"; 101]));
    values
}

/// All names in a schema: members, and enumerated values.
fn names(schema: &Value, members: &mut BTreeSet<String>, values: &mut BTreeSet<String>) {
    match schema {
        Value::Object(keywords) => {
            for (keyword, value) in keywords {
                match (keyword.as_str(), value) {
                    ("properties", Value::Object(map)) => members.extend(map.keys().cloned()),
                    ("required", Value::Array(list)) => {
                        members.extend(list.iter().filter_map(Value::as_str).map(str::to_owned));
                    }
                    ("enum", Value::Array(list)) => {
                        values.extend(list.iter().map(ToString::to_string));
                    }
                    ("const", value) => {
                        values.insert(value.to_string());
                    }
                    _ => {}
                }
                names(value, members, values);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| names(item, members, values)),
        _ => {}
    }
}

/// Pointers to every value of a document.
fn places(value: &Value, at: String, out: &mut Vec<String>) {
    out.push(at.clone());
    match value {
        Value::Object(members) => {
            for (name, below) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                places(below, format!("{at}/{name}"), out);
            }
        }
        Value::Array(items) => {
            for (index, below) in items.iter().enumerate() {
                places(below, format!("{at}/{index}"), out);
            }
        }
        _ => {}
    }
}

fn mutate(
    seed: &Value,
    members: &BTreeSet<String>,
    values: &[Value],
    mut visit: impl FnMut(&Value),
) {
    let mut pointers = Vec::new();
    places(seed, String::new(), &mut pointers);
    visit(seed);
    for pointer in pointers {
        let with = |change: &dyn Fn(&mut Value)| {
            let mut copy = seed.clone();
            change(copy.pointer_mut(&pointer).unwrap());
            copy
        };
        for value in values {
            visit(&with(&|place| *place = value.clone()));
        }
        match seed.pointer(&pointer).unwrap() {
            Value::Object(object) => {
                for name in object.keys() {
                    visit(&with(&|place| {
                        place.as_object_mut().unwrap().remove(name);
                    }));
                }
                for name in members
                    .iter()
                    .map(String::as_str)
                    .chain(["unknown", "x-extra"])
                {
                    for value in [
                        json!(null),
                        json!("x"),
                        json!(1),
                        json!([]),
                        json!({}),
                        json!(true),
                    ] {
                        visit(&with(&|place| {
                            place
                                .as_object_mut()
                                .unwrap()
                                .insert(name.to_owned(), value.clone());
                        }));
                    }
                }
            }
            Value::Array(items) => {
                for item in items {
                    visit(&with(&|place| {
                        place.as_array_mut().unwrap().push(item.clone())
                    }));
                }
                visit(&with(&|place| {
                    place.as_array_mut().unwrap().pop();
                }));
            }
            _ => {}
        }
    }
}

/// Documents of the public registry to which a schema applies.
fn published_documents(document: Document) -> Vec<Value> {
    let Some(packs) = shared("openwop/registry/v1/packs") else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for pack in std::fs::read_dir(packs).unwrap() {
        for file in std::fs::read_dir(pack.unwrap().path().join("-")).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let served = name.ends_with(".json") && !name.ends_with(".sbom.json");
            if document == Document::RegistryVersionManifest && served {
                found.push(serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap());
            }
        }
    }
    found
}

#[test]
fn built_in_and_published_schemas_accept_the_same_documents() {
    let Some(published) = Published::at_hand() else {
        return;
    };
    let all = &published.schemas;
    let mut differences = Vec::new();
    for document in documents() {
        let schema = &all[document.name()];
        let theirs = published.compile(schema);
        let (mut members, mut listed) = (BTreeSet::new(), BTreeSet::new());
        for part in [schema.clone(), document.schema()] {
            names(&part, &mut members, &mut listed);
        }
        let listed = listed
            .iter()
            .map(|text| serde_json::from_str(text).unwrap());
        let values: Vec<Value> = junk().into_iter().chain(listed).collect();
        let mut seen = [0_u64; 2];
        let own = seeds::of(document);
        assert!(!own.is_empty(), "{}: no seed", document.name());
        for seed in &own {
            assert!(
                theirs.is_valid(seed),
                "{}: a seed is refused: {seed}",
                document.name()
            );
        }
        let more = published_documents(document);
        for seed in own.iter().chain(&more) {
            // The registry's documents are large, so only the seeds are mutated completely.
            let values = if more.contains(seed) {
                &values[..4]
            } else {
                &values[..]
            };
            let members = if more.contains(seed) {
                BTreeSet::new()
            } else {
                members.clone()
            };
            mutate(seed, &members, values, |instance| {
                let (ours, published) = (document.is_valid(instance), theirs.is_valid(instance));
                seen[usize::from(published)] += 1;
                if ours != published && differences.len() < 20 {
                    differences.push(format!(
                        "{}: ours says {ours}, the published one {published}: {instance}",
                        document.name()
                    ));
                }
            });
        }
        println!(
            "{}: {} accepted, {} refused by both",
            document.name(),
            seen[1],
            seen[0]
        );
        assert!(seen[0] > 50 && seen[1] > 0, "{}: {seen:?}", document.name());
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn built_in_schemas_do_not_copy_published_descriptions() {
    let Some(published) = Published::at_hand() else {
        return;
    };
    let all = &published.schemas;
    fn texts(value: &Value, out: &mut BTreeSet<String>) {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(text)) = members.get("description") {
                    out.insert(text.clone());
                }
                members.values().for_each(|below| texts(below, out));
            }
            Value::Array(items) => items.iter().for_each(|below| texts(below, out)),
            _ => {}
        }
    }
    for document in documents() {
        let (mut ours, mut theirs) = (BTreeSet::new(), BTreeSet::new());
        texts(&document.schema(), &mut ours);
        texts(&all[document.name()], &mut theirs);
        let copied: Vec<_> = ours
            .intersection(&theirs)
            .filter(|text| text.len() > 24)
            .collect();
        assert!(copied.is_empty(), "{}: {copied:?}", document.name());
    }
}

fn created(change: impl FnOnce(&mut Map<String, Value>)) -> bool {
    let mut body = json!({
        "mode": "eval", "evalSuiteRef": "community.x.evals.y@1.0.0", "agentId": "community.x.pack.default",
        "configurable": {"evalModes": ["golden"], "temperature": null, "model": null, "own.key": {"a": 1}},
        "tags": ["t"], "metadata": {"a": 1}, "inputs": {}
    });
    change(body.as_object_mut().unwrap());
    Document::CreateRun.is_valid(&body)
}

#[test]
fn the_body_that_creates_a_run_is_closed() {
    assert!(created(|_| {}));
    assert!(!created(|body| drop(
        body.insert("unknown".into(), json!(1))
    )));
    assert!(!created(|body| drop(body.remove("agentId"))));
    assert!(!created(|body| drop(body.remove("evalSuiteRef"))));
    assert!(!created(|body| drop(
        body.insert("mode".into(), json!("shadow"))
    )));
    assert!(created(|body| drop(body.remove("mode"))));
    assert!(!Document::CreateRun.is_valid(&json!({})));
    for (key, good, bad) in [
        ("recursionLimit", json!(1), json!(0)),
        ("temperature", json!(2), json!(2.1)),
        ("maxTokens", json!(null), json!(1.5)),
        ("evalModes", json!(["rubric", "golden"]), json!(["vibes"])),
        ("evalModes", json!(null), json!([])),
        (
            "evalMatch",
            json!({"ignore": ["/a~1b/0"]}),
            json!({"ignore": ["a"]}),
        ),
        ("evalMatch", json!({}), json!({"subset": true})),
        ("baselineRunId", json!("run_1"), json!("")),
    ] {
        let with = |value: Value| created(|body| body["configurable"][key] = value);
        assert!(with(good), "{key}");
        assert!(!with(bad), "{key}");
    }
}
