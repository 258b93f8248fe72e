//! Packs from registries.

use touchstone::domain::pack::Refusal;
use touchstone::domain::pack::verify::{Policy, Trust};
use touchstone::ports::PackSource;
use touchstone::protocol::openwop::pack::Lockfile;
use touchstone::service::packs::{Candidate, PackRequest, fetch};

/// Finds a version in a registry, fetches it, and verifies it.
pub async fn fetch_and_verify(
    source: &dyn PackSource,
    request: &PackRequest,
    trust: &Trust,
    policy: &Policy,
    lock: Option<&Lockfile>,
) -> Result<Candidate, Refusal> {
    let download = fetch(source, request, trust, lock).await?;
    let pack = download.verify(policy, lock)?;
    Ok(Candidate {
        pack,
        tgz: download.tgz,
    })
}
