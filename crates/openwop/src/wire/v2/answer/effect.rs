//! The ledger of effects of a run, and the manifest of the host's effect seams.

use serde_json::Value;

use super::{Closed, each};
use crate::wire::v2::translation::{Context, Unprojectable};

pub fn effects(context: &Context<'_>, body: Value) -> Result<Value, Unprojectable> {
    let mut ledger = Closed::of("EffectLedger", body)?;
    ledger.bind(context, "runId")?;
    let effects = ledger.list("effects")?;
    ledger.put("effects", each(effects, |one| effect(context, one))?);
    Ok(ledger.done())
}

fn effect(context: &Context<'_>, body: Value) -> Result<Value, Unprojectable> {
    let mut effect = Closed::of("Effect", body)?;
    effect.bind(context, "effectId")?;
    effect.keep(&["nodeId", "attempt", "keying", "state", "at"])?;
    effect.keep_any(&["invocationId", "providerKey"]);
    Ok(effect.done())
}

pub fn seams(body: Value) -> Result<Value, Unprojectable> {
    let mut manifest = Closed::of("EffectSeamManifest", body)?;
    manifest.keep(&["manifestVersion"])?;
    let mut host = Closed::of("EffectSeamHost", manifest.needed("host")?)?;
    host.keep(&["name"])?;
    host.keep_any(&["version"]);
    let mut build = Closed::of("EffectSeamBuild", host.needed("build")?)?;
    build.keep(&["kind", "id"])?;
    host.put("build", build.done());
    manifest.put("host", host.done());
    let seams = manifest.list("seams")?;
    manifest.put("seams", each(seams, seam)?);
    Ok(manifest.done())
}

fn seam(body: Value) -> Result<Value, Unprojectable> {
    let mut seam = Closed::of("EffectSeam", body)?;
    seam.keep(&["seam", "kind", "guarded", "guardedBy"])?;
    seam.keep_any(&["branchReFires", "note"]);
    Ok(seam.done())
}
