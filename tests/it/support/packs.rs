//! Packs from registries.

use touchstone::kinds::PACK_FORMAT;
use touchstone_openwop::pack::Lockfile;
use touchstone_packs::ports::PackSource;
use touchstone_packs::rules::Refusal;
use touchstone_packs::rules::verify::{Policy, Trust};
use touchstone_packs::service::download::{PackRequest, fetch};
use touchstone_packs::service::packs::Candidate;

/// Finds a version in a registry, fetches it, and verifies it.
pub async fn fetch_and_verify(
    source: &dyn PackSource,
    request: &PackRequest,
    trust: &Trust,
    policy: &Policy,
    lock: Option<&Lockfile>,
) -> Result<Candidate, Refusal> {
    let download = fetch(source, request, trust, lock).await?;
    let pack = download.verify(policy, lock, PACK_FORMAT)?;
    Ok(Candidate {
        pack,
        tgz: download.tgz,
    })
}
