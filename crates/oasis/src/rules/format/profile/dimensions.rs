//! Reads the dimensions of an agent's configuration (Prof 2.16).

use super::super::problem::Problems;
use super::super::scenario::read_setting;
use super::super::table::Table;
use super::Unique;
use crate::rules::configuration::{Dimension, DimensionKind, Setting};

#[derive(Clone, Copy)]
enum Kind {
    Enum,
    Boolean,
}

pub(super) fn read(file: &mut Table<'_>, problems: &mut Problems) -> Vec<Dimension> {
    let mut dimensions = Vec::new();
    let mut ids = Unique::default();
    let Some(mut schema) = file.maybe_table("agent_configuration_schema", problems) else {
        return dimensions;
    };
    for mut table in schema.tables("dimensions", problems) {
        let identifier = table.text("identifier", problems);
        let kinds = [("enum", Kind::Enum), ("boolean", Kind::Boolean)];
        let kind = table.word("type", &kinds, problems);
        let values = table.texts("values", problems);
        let path = table.path("default");
        let default = table
            .get("default")
            .and_then(|node| read_setting(node, &path, problems));
        let description = table.maybe_text("description", problems);
        let kind = kind.map(|kind| match kind {
            Kind::Enum => DimensionKind::Enum { values },
            Kind::Boolean => DimensionKind::Boolean,
        });
        if let Some(words) = kind.as_ref().and_then(|kind| fault(kind, default.as_ref())) {
            problems.note(table.place(), table.path(""), words);
        }
        if let Some(id) = &identifier {
            let at = (table.place_of("identifier"), table.path("identifier"));
            ids.take(id, at, problems);
        }
        table.end(problems);
        if let (Some(identifier), Some(kind)) = (identifier, kind) {
            dimensions.push(Dimension {
                identifier,
                kind,
                default,
                description: description.unwrap_or_default(),
            });
        }
    }
    schema.end(problems);
    dimensions
}

fn fault(kind: &DimensionKind, default: Option<&Setting>) -> Option<&'static str> {
    match (kind, default) {
        (DimensionKind::Enum { values }, _) if values.is_empty() => {
            Some("is an enum without `values`; list them")
        }
        (DimensionKind::Enum { values }, Some(Setting::Text(text))) if !values.contains(text) => {
            Some("has a `default` that is not one of its `values`")
        }
        (DimensionKind::Enum { .. }, Some(Setting::Flag(_)))
        | (DimensionKind::Boolean, Some(Setting::Text(_))) => {
            Some("has a `default` of the wrong type")
        }
        _ => None,
    }
}
