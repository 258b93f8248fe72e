//! Compiled validators for `schemas/`, and the compiler for schemas from packs.
//!
//! Protocol documents are checked against this host's own copies of the schemas (same constraints
//! as the published ones, different descriptions), which are embedded in the binary and refer only
//! to each other. Nothing is ever fetched. A violation gives the position and the rule, and never
//! quotes the value.

mod cost;
mod graph;
mod untrusted;

use std::sync::LazyLock;

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{Draft, PatternOptions, Registry, ValidationError, Validator};
use serde_json::Value;

pub use untrusted::{CompiledSchema, SchemaFault, compile_untrusted};

/// Maximum number of violations reported for a document.
const MAX_VIOLATIONS: usize = 20;

/// A violation of a rule by a document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, serde::Serialize)]
#[error("{}: {reason}", if pointer.is_empty() { "the document" } else { pointer })]
pub struct Violation {
    /// JSON Pointer into the document; empty for the whole document.
    pub pointer: String,
    /// The rule, without the violating value.
    pub reason: String,
}

macro_rules! documents {
    ($( $(#[$doc:meta])* $variant:ident = $file:literal; )*) => {
        /// A protocol document that has a schema.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Document { $( $(#[$doc])* $variant, )* }

        impl Document {
            /// All documents.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// File name in `schemas/`, without `.schema.json`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $file,)* }
            }

            /// The schema's text.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => include_str!(
                        concat!("../../../../schemas/", $file, ".schema.json")
                    ),)*
                }
            }
        }

        static VALIDATORS: LazyLock<Vec<LazyLock<Validator>>> = LazyLock::new(|| {
            vec![$(LazyLock::new(|| Document::$variant.compile()),)*]
        });
    };
}

documents! {
    /// `evals/*.json` (RFC 0081 §A).
    AgentEvalSuite = "agent-eval-suite";
    /// The scorecard (RFC 0081 §C).
    EvalSummary = "eval-summary";
    /// An entry of `agents[]` (RFC 0003).
    AgentManifest = "agent-manifest";
    /// `pack.json` of a pack with agents or nodes.
    NodePackManifest = "node-pack-manifest";
    /// `pack.json` of a prompt pack.
    PromptPackManifest = "prompt-pack-manifest";
    /// A template of a prompt pack.
    PromptTemplate = "prompt-template";
    /// The kind of a template.
    PromptKind = "prompt-kind";
    /// A reference to a template.
    PromptRef = "prompt-ref";
    /// `pack-lock.json`.
    PackLockfile = "pack-lockfile";
    RegistryVersionManifest = "registry-version-manifest";
    /// `GET /v1/agents`.
    AgentInventoryResponse = "agent-inventory-response";
    /// Every response that is not a success.
    ErrorEnvelope = "error-envelope";
    /// An agent in a snapshot.
    AgentRef = "agent-ref";
    /// A log entry.
    RunEvent = "run-event";
    /// `GET /v1/runs/{runId}`.
    RunSnapshot = "run-snapshot";
    /// Body of `POST /v1/runs`.
    CreateRun = "create-run";
    /// The verdict of an OASIS evaluation.
    OasisVerdict = "oasis-verdict";
    /// All inputs from which an OASIS verdict is computed.
    OasisComputeInput = "oasis-compute-input";
}

impl Document {
    /// The schema as JSON.
    #[expect(
        clippy::expect_used,
        reason = "the schemas are compiled into the binary, and a test reads every one of them"
    )]
    pub fn schema(self) -> Value {
        serde_json::from_str(self.text()).expect("an embedded schema is JSON")
    }

    #[expect(
        clippy::expect_used,
        reason = "the schemas are compiled into the binary, and a test compiles every one of them"
    )]
    fn compile(self) -> Validator {
        let others = Document::ALL
            .iter()
            .fold(Registry::new(), |registry, document| {
                let uri = format!(
                    "https://touchstone.invalid/schemas/{}.schema.json",
                    document.name()
                );
                registry
                    .add(uri, document.schema())
                    .expect("an embedded schema has a valid address")
            });
        let registry = others
            .prepare()
            .expect("the embedded schemas refer to each other only");
        jsonschema::options()
            .with_draft(Draft::Draft202012)
            .with_registry(&registry)
            .with_pattern_options(PatternOptions::regex())
            .offline()
            .build(&self.schema())
            .expect("an embedded schema compiles")
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "the list has one entry a variant, in order"
    )]
    fn validator(self) -> &'static Validator {
        &VALIDATORS[self as usize]
    }

    /// Whether the document satisfies its schema.
    pub fn is_valid(self, instance: &Value) -> bool {
        self.validator().is_valid(instance)
    }

    /// Checks a document.
    ///
    /// # Errors
    /// The violations, at most twenty.
    pub fn check(self, instance: &Value) -> Result<(), Vec<Violation>> {
        let validator = self.validator();
        if validator.is_valid(instance) {
            return Ok(());
        }
        let mut violations = Vec::new();
        for error in validator.iter_errors(instance).take(MAX_VIOLATIONS) {
            collect(&error, true, &mut violations);
        }
        violations.truncate(MAX_VIOLATIONS);
        Err(violations)
    }
}

/// Explains an error. If a choice between schemas failed, explains the branch that came closest.
fn collect(error: &ValidationError<'_>, names: bool, out: &mut Vec<Violation>) {
    if let Kind::AnyOf { context } | Kind::OneOfNotValid { context } = error.kind() {
        let depth = |errors: &Vec<ValidationError<'_>>| {
            errors
                .iter()
                .map(|e| e.instance_path().as_str().matches('/').count())
                .max()
        };
        // The branch that got furthest is probably the intended one, if it got further than the
        // choice itself.
        if let Some(branch) = context.iter().max_by_key(|errors| depth(errors))
            && depth(branch) > Some(error.instance_path().as_str().matches('/').count())
        {
            for inner in branch {
                collect(inner, names, out);
            }
            return;
        }
    }
    out.push(Violation {
        pointer: error.instance_path().as_str().to_owned(),
        reason: reason(error.kind(), names),
    });
}

/// The violated rule. With `names`, unknown members are named if they look like member names rather
/// than data.
fn reason(kind: &Kind, names: bool) -> String {
    match kind {
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let plain = |name: &&String| {
                names && name.len() <= 32 && name.bytes().all(|b| b.is_ascii_alphabetic())
            };
            match unexpected.iter().find(plain) {
                Some(name) => format!("has the member `{name}`, which is not allowed here"),
                None => "has a member that is not allowed here".to_owned(),
            }
        }
        Kind::AdditionalItems { limit } => format!("has more than {limit} items"),
        Kind::UnevaluatedItems { .. } => "has an item that is not allowed here".to_owned(),
        Kind::AnyOf { .. } => "matches none of the allowed forms".to_owned(),
        Kind::OneOfNotValid { .. } | Kind::OneOfMultipleValid { .. } => {
            "must match exactly one of the allowed forms".to_owned()
        }
        Kind::Constant { expected_value } => format!("must be {expected_value}"),
        Kind::Enum { options } => format!("must be one of {options}"),
        Kind::Contains => "lacks a required item".to_owned(),
        Kind::Maximum { limit } => format!("must be at most {limit}"),
        Kind::Minimum { limit } => format!("must be at least {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("must be below {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("must be above {limit}"),
        Kind::MaxItems { limit } => format!("must have at most {limit} items"),
        Kind::MinItems { limit } => format!("must have at least {limit} items"),
        Kind::MaxLength { limit } => format!("must have at most {limit} characters"),
        Kind::MinLength { limit } => format!("must have at least {limit} characters"),
        Kind::MaxProperties { limit } => format!("must have at most {limit} members"),
        Kind::MinProperties { limit } => format!("must have at least {limit} members"),
        Kind::MultipleOf { multiple_of } => format!("must be a multiple of {multiple_of}"),
        Kind::Pattern { pattern } => format!("must match the pattern {pattern}"),
        Kind::Required { property } => format!("lacks the member {property}"),
        Kind::Type {
            kind: TypeKind::Single(one),
        } => format!("must be of type {one}"),
        Kind::Type {
            kind: TypeKind::Multiple(many),
        } => {
            let all: Vec<String> = many.iter().map(|one| one.to_string()).collect();
            format!("must be of type {}", all.join(" or "))
        }
        Kind::UniqueItems => "has the same item twice".to_owned(),
        Kind::Not { .. } | Kind::FalseSchema => "is not allowed here".to_owned(),
        other => format!("violates `{}`", other.keyword()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_embedded_schema_compiles() {
        for document in Document::ALL {
            assert!(!document.is_valid(&json!(7)), "{}", document.name());
        }
    }

    #[test]
    fn a_violation_names_the_place_and_the_rule() {
        let error = json!({"error": "", "message": "m", "canary": 1, "canary-1": "canary"});
        let violations = Document::ErrorEnvelope.check(&error).unwrap_err();
        let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
        assert!(
            lines.contains(&"/error: must have at least 1 characters".to_owned()),
            "{lines:?}"
        );
        assert!(
            lines.contains(
                &"the document: has the member `canary`, which is not allowed here".to_owned()
            ),
            "{lines:?}"
        );
    }

    #[test]
    fn a_violation_never_quotes_the_value() {
        let manifest = json!({
            "agentId": "canary value", "persona": ["canary value"], "modelClass": "canary value",
            "systemPrompt": "", "canary value": "canary value"
        });
        let violations = Document::AgentManifest.check(&manifest).unwrap_err();
        assert!(violations.len() >= 4);
        assert!(
            violations.iter().all(|v| !v.to_string().contains("canary")),
            "{violations:?}"
        );
    }
}
