//! Annotations of runs.

use serde_json::{Value, json};

use super::{Closed, each};
use crate::wire::v2::subject::Subject;
use crate::wire::v2::translation::{Context, Unprojectable};

pub fn list(context: &Context<'_>, body: Value) -> Result<Value, Unprojectable> {
    let mut list = Closed::of("AnnotationList", body)?;
    let items = list.list("annotations")?;
    list.put(
        "annotations",
        each(items, |item| annotation(context, item))?,
    );
    Ok(list.done())
}

pub fn annotation(context: &Context<'_>, body: Value) -> Result<Value, Unprojectable> {
    let mut made = Closed::of("Annotation", body)?;
    made.keep(&["annotationId", "createdAt"])?;
    made.keep_any(&["note"]);
    let mut target = Closed::of("AnnotationTarget", made.needed("target")?)?;
    target.bind(context, "runId")?;
    target.keep_any(&["eventId", "nodeId"]);
    made.put("target", target.done());
    let mut signal = Closed::of("AnnotationSignal", made.needed("signal")?)?;
    signal.keep(&["kind"])?;
    signal.keep_any(&["rating", "correction", "label"]);
    made.put("signal", signal.done());
    let principal = Closed::of("AnnotationActor", made.needed("actor")?)?.text("principalRef")?;
    // An annotation has no era. It is not part of a log, so its actor is shown as of today.
    made.put("actor", json!(Subject::of(context.tenant, &principal)));
    Ok(made.done())
}
