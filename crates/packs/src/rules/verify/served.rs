//! The registry's manifest of a version, and the archive that it promises.

use crate::rules::archive::MAX_COMPRESSED;
use crate::rules::name::PackId;
use crate::rules::trust::Policy;
use crate::rules::{Refusal, Stage, integrity};
use touchstone_kit::error::ErrorCode;
use touchstone_kit::json;
use touchstone_openwop::pack::ServedManifest;

/// Maximum size of a served manifest in bytes.
pub const MAX_SERVED: usize = 1024 * 1024;

pub(super) fn read_served(
    octets: &[u8],
    request: Option<&PackId>,
) -> Result<ServedManifest, Refusal> {
    let refuse = |code, reason: &str| {
        Refusal::new(
            code,
            Stage::Resolve,
            format!("the registry's manifest {reason}"),
        )
    };
    if octets.len() > MAX_SERVED {
        return Err(refuse(ErrorCode::InvalidManifest, "is larger than 1 MiB"));
    }
    let value = json::parse_foreign(octets)
        .map_err(|error| refuse(ErrorCode::InvalidManifest, &error.to_string()))?;
    let served: ServedManifest = serde_json::from_value(value).map_err(|_| {
        refuse(
            ErrorCode::InvalidManifest,
            "lacks name or version, or has a member of the wrong type",
        )
    })?;
    if PackId::new(&served.name, &served.version).is_none() {
        return Err(refuse(
            ErrorCode::InvalidManifest,
            "has no valid name or version",
        ));
    }
    if let Some(request) = request {
        if served.name != request.name {
            let refusal = refuse(ErrorCode::ManifestNameMismatch, "is for another pack");
            return Err(Refusal {
                stage: Stage::Manifest,
                ..refusal
            });
        }
        if served.version != request.version.to_string() {
            let refusal = refuse(ErrorCode::ManifestVersionMismatch, "is for another version");
            return Err(Refusal {
                stage: Stage::Manifest,
                ..refusal
            });
        }
    }
    Ok(served)
}

/// The pack that the archive must contain. `read_served` has already checked the served manifest's
/// identity against the request, if there is one.
pub(super) fn expected(
    request: Option<&PackId>,
    served: Option<&ServedManifest>,
) -> Option<PackId> {
    match (request, served) {
        (Some(request), _) => Some(request.clone()),
        (None, Some(served)) => PackId::new(&served.name, &served.version),
        (None, None) => None,
    }
}

/// Warnings about a yanked or deprecated version.
pub(super) fn lifecycle(served: &ServedManifest, policy: &Policy) -> Result<Vec<String>, Refusal> {
    let mut warnings = Vec::new();
    let because = |reason: &Option<String>| match reason {
        Some(reason) => format!(": {}", printable(reason)),
        None => String::new(),
    };
    if served.yanked {
        let text = format!("the version was yanked{}", because(&served.yanked_reason));
        if !policy.allow_yanked {
            return Err(Refusal::new(
                ErrorCode::PackVersionNotFound,
                Stage::Resolve,
                text,
            ));
        }
        warnings.push(text);
    }
    if served.deprecated {
        let mut text = format!(
            "the version is deprecated{}",
            because(&served.deprecation_reason)
        );
        if let Some(next) = &served.superseded_by {
            text.push_str(&format!("; superseded by {}", printable(next)));
        }
        warnings.push(text);
    }
    Ok(warnings)
}

/// Registry text made safe for a terminal and a log.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(512).collect()
}

/// Checks the size of the archive and, with a registry, its digest.
pub(super) fn check_archive(served: Option<&ServedManifest>, tgz: &[u8]) -> Result<(), Refusal> {
    if tgz.len() > MAX_COMPRESSED {
        return Err(Refusal::new(
            ErrorCode::TarballTooLarge,
            Stage::Archive,
            "the archive is larger than 10 MiB",
        ));
    }
    match served {
        Some(served) => check_integrity(served, tgz),
        None => Ok(()),
    }
}

fn check_integrity(served: &ServedManifest, tgz: &[u8]) -> Result<(), Refusal> {
    let refuse = |reason| {
        Err(Refusal::new(
            ErrorCode::PackIntegrityMismatch,
            Stage::Integrity,
            reason,
        ))
    };
    let Some(promised) = &served.integrity else {
        return refuse("the registry's manifest has no integrity");
    };
    if integrity::parse(promised).is_none() {
        return refuse("the registry's integrity is not `sha256-` and canonical base64");
    }
    if !integrity::matches(promised, tgz) {
        return refuse("the archive does not match the integrity in the registry's manifest");
    }
    Ok(())
}
