//! Schemas from packs: compiled without a resolver, and evaluated only within a bound.
//!
//! A publisher's schema is evaluated for every task and every answer, so it must neither access
//! anything outside nor take unbounded time. It is JSON Schema 2020-12 in one document; references
//! start with `#`; regular expressions run in linear time; its size, its number of subschemas and
//! the cost of an evaluation are bounded. Recursion is allowed if it descends into the instance.

use std::sync::Arc;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use super::cost::{self, Bounds};
use super::{Violation, collect, graph};
use touchstone_kit::json::MAX_DEPTH;

/// Maximum size in bytes of a schema in compact form.
const MAX_OCTETS: usize = 256 * 1024;
/// Maximum size in bytes of a compiled regular expression.
const MAX_PATTERN_OCTETS: usize = 512 * 1024;
/// Maximum number of visits on one path of an instance with [`SHALLOW`] levels; schemas above it
/// are rejected during installation.
const MAX_SHALLOW_COST: u64 = 100_000;
/// Depth of instances that every schema must be able to handle.
const SHALLOW: usize = 8;
/// Maximum number of visits in one evaluation.
const MAX_COST: u64 = 50_000_000;
/// Maximum number of nested evaluations in one evaluation; bounds the stack.
const MAX_FRAMES: u64 = 1_000;

/// Why a schema is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", if pointer.is_empty() { "the schema" } else { pointer })]
pub struct SchemaFault {
    /// JSON Pointer into the schema; empty for the whole schema.
    pub pointer: String,
    pub reason: String,
}

impl SchemaFault {
    pub(super) fn at(pointer: &str, reason: &str) -> Self {
        Self {
            pointer: pointer.to_owned(),
            reason: reason.to_owned(),
        }
    }
}

/// A pack's compiled schema. Cheap to clone.
#[derive(Clone)]
pub struct CompiledSchema(Arc<Inner>);

struct Inner {
    source: Value,
    validator: Validator,
    bounds: Bounds,
    members: std::collections::BTreeSet<String>,
}

impl std::fmt::Debug for CompiledSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompiledSchema").finish_non_exhaustive()
    }
}

/// Compiles an untrusted schema.
///
/// # Errors
/// The first rule that the schema violates.
pub fn compile_untrusted(schema: &Value) -> Result<CompiledSchema, SchemaFault> {
    if !schema.is_object() && !schema.is_boolean() {
        return Err(SchemaFault::at("", "must be an object or a boolean"));
    }
    if schema.to_string().len() > MAX_OCTETS {
        return Err(SchemaFault::at("", "is larger than 256 KiB"));
    }
    if measure(schema).0 > MAX_DEPTH {
        return Err(SchemaFault::at("", "is nested deeper than 64 levels"));
    }
    let graph = graph::build(schema)?;
    let bounds = cost::bounds(&graph)?;
    if bounds.cost(SHALLOW) > MAX_SHALLOW_COST || bounds.frames(SHALLOW) > MAX_FRAMES {
        return Err(SchemaFault::at(
            "",
            "would take too long to evaluate, because nested `allOf`, `anyOf`, `oneOf` and `$ref` \
             multiply; simplify them",
        ));
    }
    jsonschema::draft202012::meta::validate(schema).map_err(|error| SchemaFault {
        pointer: error.instance_path().as_str().to_owned(),
        reason: format!(
            "is not JSON Schema 2020-12: {}",
            super::reason(error.kind(), false)
        ),
    })?;
    let validator = jsonschema::options()
        .with_draft(Draft::Draft202012)
        .with_pattern_options(
            PatternOptions::regex()
                .size_limit(MAX_PATTERN_OCTETS)
                .dfa_size_limit(MAX_PATTERN_OCTETS),
        )
        .should_validate_formats(false)
        .offline()
        .build(&without_id(schema))
        .map_err(|error| SchemaFault {
            pointer: error.instance_path().as_str().to_owned(),
            reason: "does not compile; patterns must not use look-around or back-references"
                .to_owned(),
        })?;
    Ok(CompiledSchema(Arc::new(Inner {
        source: schema.clone(),
        validator,
        bounds,
        members: graph.members,
    })))
}

/// Removes `$id`. A base URI is useless if nothing outside the document is read, and one that
/// equals a well-known URI could change the meaning of `#`.
fn without_id(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Value::Object(keywords) = &mut schema {
        keywords.remove("$id");
    }
    schema
}

/// Depth and number of leaves of a document.
fn measure(value: &Value) -> (usize, u64) {
    let mut todo = vec![(value, 0_usize)];
    let (mut deepest, mut leaves) = (0, 0_u64);
    while let Some((value, depth)) = todo.pop() {
        match value {
            Value::Array(items) if !items.is_empty() => {
                deepest = deepest.max(depth + 1);
                todo.extend(items.iter().map(|item| (item, depth + 1)));
            }
            Value::Object(members) if !members.is_empty() => {
                deepest = deepest.max(depth + 1);
                todo.extend(members.values().map(|item| (item, depth + 1)));
            }
            _ => leaves += 1,
        }
    }
    (deepest, leaves)
}

impl CompiledSchema {
    /// The schema as it was written.
    pub fn source(&self) -> &Value {
        &self.0.source
    }

    /// Whether an instance satisfies the schema; `false` for an instance that would be too
    /// expensive to judge.
    pub fn is_valid(&self, instance: &Value) -> bool {
        self.affordable(instance) && self.0.validator.is_valid(instance)
    }

    /// The first rule that an instance violates, or `None` if it satisfies the schema. Names of
    /// members that the schema does not use itself are content and are shown as `*`.
    pub fn first_violation(&self, instance: &Value) -> Option<Violation> {
        if !self.affordable(instance) {
            return Some(Violation {
                pointer: String::new(),
                reason: "is too deep or too large to be validated with this schema".to_owned(),
            });
        }
        let error = self.0.validator.validate(instance).err()?;
        let mut found = Vec::new();
        collect(&error, false, &mut found);
        let mut violation = found.into_iter().next()?;
        violation.pointer = self.mask(&violation.pointer);
        Some(violation)
    }

    fn affordable(&self, instance: &Value) -> bool {
        let (depth, leaves) = measure(instance);
        let bounds = &self.0.bounds;
        bounds.frames(depth) <= MAX_FRAMES && bounds.cost(depth).saturating_mul(leaves) <= MAX_COST
    }

    fn mask(&self, pointer: &str) -> String {
        let known = |segment: &str| {
            let name = segment.replace("~1", "/").replace("~0", "~");
            segment.bytes().all(|b| b.is_ascii_digit()) && segment.len() < 8
                || self.0.members.contains(&name)
        };
        let segments: Vec<&str> = pointer
            .split('/')
            .map(|s| if known(s) { s } else { "*" })
            .collect();
        segments.join("/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use serde_json::json;
    use std::time::{Duration, Instant};

    /// Longer than a slow machine takes, and much shorter than the work that must not begin.
    const TOO_LONG: Duration = Duration::from_secs(30);

    fn doubling(levels: usize, wrap: impl Fn(Value, Value) -> Value) -> Value {
        let mut defs = serde_json::Map::new();
        defs.insert("d0".into(), json!({"type": "string"}));
        for i in 1..=levels {
            let below = json!({"$ref": format!("#/$defs/d{}", i - 1)});
            defs.insert(format!("d{i}"), wrap(below.clone(), below));
        }
        json!({"$defs": defs, "$ref": format!("#/$defs/d{levels}")})
    }

    #[rstest]
    #[case::remote(json!({"$ref": "http://127.0.0.1:9/x.json"}))]
    #[case::sibling_file(json!({"properties": {"a": {"$ref": "other.json#/x"}}}))]
    #[case::remote_in_unused_definition(json!({"$defs": {"a": {"$ref": "https://example.org/x"}}}))]
    #[case::remote_dynamic(json!({"$dynamicRef": "https://example.org/x#a"}))]
    #[case::dangling(json!({"$ref": "#/$defs/none"}))]
    #[case::dangling_anchor(json!({"$ref": "#none"}))]
    #[case::no_schema_there(json!({"$ref": "#/enum", "enum": [1]}))]
    #[case::other_draft(json!({"$schema": "http://json-schema.org/draft-07/schema#"}))]
    #[case::embedded_resource(json!({"$defs": {"a": {"$id": "https://example.org/a"}}}))]
    #[case::wrong_type(json!({"type": 12}))]
    #[case::wrong_required(json!({"required": "a"}))]
    #[case::not_a_schema(json!([1]))]
    #[case::self_reference(json!({"$ref": "#"}))]
    #[case::cycle(json!({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}))]
    #[case::look_around(json!({"pattern": "^(?=a)b"}))]
    #[case::huge_pattern(json!({"pattern": "((\\w{50}){50}){50}"}))]
    #[case::doubling(doubling(39, |a, b| json!({"allOf": [a, b]})))]
    #[case::doubling_by_any_of(doubling(39, |a, b| json!({"anyOf": [a, b]})))]
    #[case::doubling_by_condition(doubling(39, |a, b| json!({"if": a, "then": b})))]
    #[case::doubling_by_unevaluated((0..39).fold(json!({"type": "object"}), |inner, _| json!({"allOf": [inner], "unevaluatedProperties": false})))]
    #[case::deep_chain(doubling(1500, |a, _| json!({"allOf": [a]})))]
    fn schemas_with_external_references_or_excessive_cost_are_rejected(#[case] schema: Value) {
        let started = Instant::now();
        let fault = compile_untrusted(&schema);
        assert!(fault.is_err(), "accepted");
        assert!(started.elapsed() < TOO_LONG);
    }

    #[rstest]
    #[case::tree(json!({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "v": {"type": "integer"}}}), json!({"left": {"right": {"v": 1}}}), json!({"left": {"right": {"v": "x"}}}))]
    #[case::list(json!({"$anchor": "top", "properties": {"children": {"items": {"$ref": "#top"}}, "v": {"type": "integer"}}}), json!({"children": [{"v": 1}]}), json!({"children": [{"v": true}]}))]
    #[case::definitions(json!({"$id": "https://example.org/s", "$defs": {"a/b": {"type": "string"}}, "items": {"$ref": "#/$defs/a~1b"}}), json!(["a"]), json!([1]))]
    #[case::pattern(json!({"pattern": "^[a-z]+$"}), json!("abc"), json!("abc\n"))]
    #[case::boolean(json!({"additionalProperties": false}), json!({}), json!({"a": 1}))]
    #[case::unevaluated(json!({"allOf": [{"properties": {"a": true}}], "unevaluatedProperties": false}), json!({"a": 1}), json!({"b": 1}))]
    #[case::data_is_not_schema(json!({"enum": [{"$ref": "http://example.org"}], "default": {"$id": "x"}}), json!({"$ref": "http://example.org"}), json!(1))]
    fn an_acceptable_schema_validates_instances(
        #[case] schema: Value,
        #[case] good: Value,
        #[case] bad: Value,
    ) {
        let compiled = compile_untrusted(&schema).unwrap();
        assert!(compiled.is_valid(&good));
        assert_eq!(compiled.first_violation(&good), None);
        assert!(!compiled.is_valid(&bad));
        assert!(compiled.first_violation(&bad).is_some());
    }

    #[test]
    fn an_instance_that_would_cost_too_much_is_refused_at_once() {
        // An expression grammar: three alternatives, each of which may recurse. It is a legitimate
        // schema, but exponential in the depth.
        let alternative = |op: &str| json!({"type": "object", "required": ["op"], "properties": {"op": {"const": op}, "args": {"items": {"$ref": "#"}}}});
        let schema = json!({"oneOf": [{"type": "integer"}, alternative("a"), alternative("b"), alternative("c")]});
        let compiled = compile_untrusted(&schema).unwrap();
        assert!(compiled.is_valid(&json!({"op": "b", "args": [{"op": "c", "args": [1]}]})));
        let deep = (0..30).fold(json!(1), |inner, _| json!({"op": "c", "args": [inner]}));
        let started = Instant::now();
        assert!(!compiled.is_valid(&deep));
        assert!(
            compiled
                .first_violation(&deep)
                .unwrap()
                .reason
                .contains("too deep")
        );
        assert!(started.elapsed() < TOO_LONG);

        let members = doubling(
            39,
            |a, b| json!({"allOf": [{"properties": {"x": a}}, {"properties": {"x": b}}]}),
        );
        let compiled = compile_untrusted(&members).unwrap();
        let deep = (0..39).fold(json!("leaf"), |inner, _| json!({"x": inner}));
        assert!(!compiled.is_valid(&deep));
        assert!(started.elapsed() < TOO_LONG);
    }

    #[test]
    fn the_deepest_instance_fits_a_small_stack() {
        // The maximum number of nested evaluations, on a quarter of a worker's stack.
        let mut defs = serde_json::Map::new();
        for i in 0..13 {
            defs.insert(
                format!("d{i}"),
                json!({"allOf": [{"$ref": format!("#/$defs/d{}", i + 1)}]}),
            );
        }
        defs.insert("d13".into(), json!({"properties": {"a": {"$ref": "#"}}}));
        let compiled = compile_untrusted(&json!({"$defs": defs, "$ref": "#/$defs/d0"})).unwrap();
        let deepest = (0..MAX_DEPTH)
            .map(|depth| (0..depth).fold(json!(1), |inner, _| json!({"a": inner})))
            .rfind(|instance| compiled.affordable(instance))
            .unwrap();
        assert!(measure(&deepest).0 > 20);
        let thread = std::thread::Builder::new()
            .stack_size(512 * 1024)
            .spawn(move || {
                assert!(compiled.is_valid(&deepest));
                assert!(compiled.first_violation(&deepest).is_none());
            });
        thread.unwrap().join().unwrap();
    }

    #[test]
    fn a_violation_contains_only_names_from_the_schema() {
        let schema =
            json!({"properties": {"known": {"additionalProperties": {"type": "integer"}}}});
        let compiled = compile_untrusted(&schema).unwrap();
        let violation = compiled
            .first_violation(&json!({"known": {"canary": "canary"}}))
            .unwrap();
        assert_eq!(violation.to_string(), "/known/*: must be of type integer");
    }
}
