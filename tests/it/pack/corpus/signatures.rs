//! Integrity, keys, signatures, lockfiles, and the operator's trust settings.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use touchstone_kit::error::ErrorCode::{
    ManifestNameMismatch, ManifestVersionMismatch, PackIntegrityMismatch, PackLockfileIncomplete,
    PackNamespaceUnauthorized, PackNotApproved, PackSignatureInvalid, PackVersionNotFound,
    SignatureUnknownKey,
};
use touchstone_kit::integrity;
use touchstone_packs::rules::name::Namespaces;
use touchstone_packs::rules::trust::key_ring::{KeyOrigin, KeyRing};
use touchstone_packs::rules::verify::{SignatureCoverage, SigningMethod, TrustMode};

use super::forge::{Forge, Forged, key};
use super::{Case, loads, loads_and, refused};

fn locked(forged: &Forged, signer: Option<&str>, change: impl FnOnce(&mut Value)) -> Value {
    let mut pin = json!({
        "name": forged.id.name, "version": forged.id.version.to_string(), "integrity": integrity::of(&forged.tgz)
    });
    if let Some(signer) = signer {
        pin["signature"] = json!({
            "algorithm": "ed25519", "publicKey": key(signer).public().to_base64(), "value": STANDARD.encode(&forged.signature)
        });
    }
    change(&mut pin);
    json!({"lockfileVersion": 1, "generatedAt": "2026-01-01T00:00:00Z", "packs": [pin]})
}

fn lock(
    forge: &mut Forge,
    signer: Option<&'static str>,
    change: impl FnOnce(&mut Value) + 'static,
) {
    forge.lock = Some(Box::new(move |forged| locked(forged, signer, change)));
}

pub fn cases() -> Vec<Case> {
    let mut all = signature_cases();
    all.extend(key_cases());
    all.extend(served_cases());
    all.extend(lock_cases());
    all.extend(trust_cases());
    all
}

fn signature_cases() -> Vec<Case> {
    let bent = |name, bend: fn(Vec<u8>) -> Vec<u8>| {
        refused(name, PackSignatureInvalid, move |f| {
            f.signature = Some(Box::new(bend))
        })
    };
    vec![
        loads_and(
            "manual",
            |pack| {
                let state = &pack.signature;
                state.method == Some(SigningMethod::Manual)
                    && state.key_id.as_deref() == Some("bench-main")
                    && state.key_origin == Some(KeyOrigin::Discovery)
                    && state.coverage == SignatureCoverage::Manifest
            },
            |_| {},
        ),
        loads_and(
            "whole-archive",
            |pack| pack.signature.coverage == SignatureCoverage::Tarball,
            |f| f.method = "ed25519",
        ),
        bent("one-bit", |mut s| {
            s[20] ^= 4;
            s
        }),
        bent("too-short", |s| s[..63].to_vec()),
        bent("too-long", |s| [&s[..], &[0]].concat()),
        bent("base64", |s| STANDARD.encode(s).into_bytes()),
        bent("empty", |_| Vec::new()),
        bent("zeros", |_| vec![0; 64]),
        refused("other-octets", PackSignatureInvalid, |f| {
            f.signed = Some(Box::new(|text| [text, b" ".to_vec()].concat()));
        }),
        refused("re-serialised", PackSignatureInvalid, |f| {
            f.manifest_text = Some(Box::new(|text| {
                serde_json::to_vec_pretty(&serde_json::from_slice::<Value>(&text).unwrap()).unwrap()
            }));
            f.signed = Some(Box::new(|text| {
                serde_json::from_slice::<Value>(&text)
                    .unwrap()
                    .to_string()
                    .into_bytes()
            }));
        }),
        refused(
            "manifest-signature-as-archive-signature",
            PackSignatureInvalid,
            |f| {
                f.bend_served(|s| {
                    s["signing"] = json!({"method": "ed25519", "keyId": "bench-main"})
                });
            },
        ),
        refused(
            "archive-signature-as-manifest-signature",
            PackSignatureInvalid,
            |f| {
                f.method = "ed25519";
                f.bend_served(|s| {
                    s["signing"] = json!({"method": "manual", "publicKeyRef": "bench-main"})
                });
            },
        ),
        refused("embedded-differs", PackSignatureInvalid, |f| {
            f.bend_entries(|mut entries| {
                for entry in entries
                    .iter_mut()
                    .filter(|e| e.name == b"keys/pack.json.sig")
                {
                    entry.data = vec![1; 64];
                }
                entries
            });
        }),
        loads("embedded-absent", |f| {
            f.bend_entries(|entries| {
                entries
                    .into_iter()
                    .filter(|e| e.name != b"keys/pack.json.sig")
                    .collect()
            });
        }),
        refused("unsigned", PackSignatureInvalid, |f| {
            f.manifest["signing"] = json!({});
            f.bend_served(|s| drop(s.as_object_mut().unwrap().remove("signing")));
        }),
        refused("no-method", PackSignatureInvalid, |f| {
            f.bend_served(|s| s["signing"] = json!({"publicKeyRef": "bench-main"}));
        }),
        refused("sigstore", PackSignatureInvalid, |f| {
            f.bend_served(|s| s["signing"]["method"] = "sigstore".into());
        }),
        refused("no-key-named", PackSignatureInvalid, |f| {
            f.bend_served(|s| s["signing"] = json!({"method": "manual"}));
        }),
        refused("two-keys-named", PackSignatureInvalid, |f| {
            f.bend_served(|s| s["signing"]["keyId"] = "bench-other".into());
        }),
        loads("one-key-named-twice", |f| {
            f.bend_served(|s| s["signing"]["keyId"] = "bench-main".into());
        }),
        refused("inner-key-missing", PackSignatureInvalid, |f| {
            f.manifest["signing"] = json!({"method": "manual"});
            f.bend_served(|s| s["signing"]["publicKeyRef"] = "bench-main".into());
        }),
        refused("inner-key-differs", PackSignatureInvalid, |f| {
            f.key_id = "bench-other".to_owned();
            f.bend_served(|s| s["signing"]["publicKeyRef"] = "bench-main".into());
        }),
        refused("signed-by-another", PackSignatureInvalid, |f| {
            f.signer = "bench-other"
        }),
    ]
}

fn key_cases() -> Vec<Case> {
    let signed_by = |forge: &mut Forge, id: &'static str| {
        forge.signer = id;
        forge.key_id = id.to_owned();
    };
    let named = |forge: &mut Forge, name: &str| {
        forge.name = name.to_owned();
        forge.manifest["name"] = name.into();
        forge.agent()["agentId"] = format!("{name}.painter").into();
    };
    vec![
        refused(
            "key-of-another-space",
            PackNamespaceUnauthorized,
            move |f| signed_by(f, "bench-other"),
        ),
        refused("key-retired", SignatureUnknownKey, move |f| {
            signed_by(f, "bench-retired")
        }),
        refused("key-unlisted", SignatureUnknownKey, move |f| {
            signed_by(f, "bench-unlisted")
        }),
        refused("key-id-is-a-path", SignatureUnknownKey, |f| {
            f.key_id = "../keys/bench-main".to_owned()
        }),
        loads("single", move |f| signed_by(f, "bench-narrow")),
        refused("single.child", PackNamespaceUnauthorized, move |f| {
            signed_by(f, "bench-narrow")
        }),
        loads("branch.leaf", move |f| signed_by(f, "bench-narrow")),
        refused("branched", PackNamespaceUnauthorized, move |f| {
            signed_by(f, "bench-narrow")
        }),
        refused("branch", PackNamespaceUnauthorized, move |f| {
            signed_by(f, "bench-narrow")
        }),
        refused("foreign-name", PackNamespaceUnauthorized, move |f| {
            named(f, "core.openwop.bench")
        }),
        refused("key-is-no-key", PackSignatureInvalid, |f| {
            f.trust.keys.supply("bench-main", b"-----BEGIN".to_vec())
        }),
        refused("key-is-raw", PackSignatureInvalid, |f| {
            f.trust.keys.supply(
                "bench-main",
                key("bench-main").public().to_base64().into_bytes(),
            );
        }),
        loads_and(
            "key-pinned",
            |pack| pack.signature.key_origin == Some(KeyOrigin::Pinned),
            |f| {
                let mut keys = KeyRing::default();
                keys.pin("bench-main", key("bench-main").public(), Namespaces::Any);
                f.trust.keys = keys;
            },
        ),
        refused("key-pinned-to-another", PackSignatureInvalid, |f| {
            f.trust
                .keys
                .pin("bench-main", key("bench-other").public(), Namespaces::Any);
        }),
        refused(
            "key-pinned-to-another-space",
            PackNamespaceUnauthorized,
            |f| {
                let space = Namespaces::These(vec!["vendor.bench.*".to_owned()]);
                f.trust
                    .keys
                    .pin("bench-main", key("bench-main").public(), space);
            },
        ),
    ]
}

fn served_cases() -> Vec<Case> {
    let integrity = |name, value: fn(&str) -> Value| {
        refused(name, PackIntegrityMismatch, move |f| {
            f.bend_served(move |s| s["integrity"] = value(s["integrity"].as_str().unwrap()));
        })
    };
    vec![
        integrity("integrity-of-other-octets", |_| {
            integrity::of(b"other").into()
        }),
        integrity("integrity-absent", |_| Value::Null),
        integrity("integrity-other-algorithm", |old| {
            old.replace("sha256", "sha512").into()
        }),
        integrity("integrity-without-padding", |old| {
            old.trim_end_matches('=').into()
        }),
        integrity("integrity-hex", |_| {
            format!("sha256-{}", "0".repeat(64)).into()
        }),
        refused("served-of-another-pack", ManifestNameMismatch, |f| {
            f.bend_served(|s| s["name"] = "community.bench-corpus.elsewhere".into());
        }),
        refused("served-of-another-version", ManifestVersionMismatch, |f| {
            f.bend_served(|s| s["version"] = "1.0.1".into());
        }),
        refused("inner-of-another-pack", ManifestNameMismatch, |f| {
            f.manifest["name"] = "community.bench-corpus.elsewhere".into();
        }),
        refused("inner-of-another-version", ManifestVersionMismatch, |f| {
            f.manifest["version"] = "1.0.0+b".into()
        }),
        loads_and(
            "served-drifts",
            |pack| pack.contents.agents[0].tools().is_empty(),
            |f| f.bend_served(|s| s["agents"][0]["toolAllowlist"] = json!(["openwop:shell"])),
        ),
        refused("yanked", PackVersionNotFound, |f| {
            f.bend_served(|s| s["yanked"] = true.into())
        }),
        loads_and(
            "yanked-and-allowed",
            |pack| pack.warnings.iter().any(|w| w.contains("yanked: leaks")),
            |f| {
                f.policy.allow_yanked = true;
                f.bend_served(|s| {
                    s["yanked"] = true.into();
                    s["yankedReason"] = "leaks\u{1b}[31m".into();
                });
            },
        ),
        loads_and(
            "deprecated",
            |pack| {
                pack.warnings
                    .iter()
                    .any(|w| w.contains("too old") && w.contains("superseded by 2.0.0"))
            },
            |f| {
                f.bend_served(|s| {
                    s["deprecated"] = true.into();
                    s["deprecationReason"] = "too old".into();
                    s["supersededBy"] = "2.0.0".into();
                });
            },
        ),
    ]
}

fn lock_cases() -> Vec<Case> {
    vec![
        loads("locked", |f| lock(f, Some("bench-main"), |_| {})),
        loads("locked-whole-archive", |f| {
            f.method = "ed25519";
            lock(f, Some("bench-main"), |_| {});
        }),
        refused("locked-other-octets", PackIntegrityMismatch, |f| {
            lock(f, None, |pin| {
                pin["integrity"] = integrity::of(b"the original").into()
            });
        }),
        refused("locked-other-version", PackLockfileIncomplete, |f| {
            lock(f, None, |pin| pin["version"] = "1.0.1".into());
        }),
        refused("locked-other-pack", PackLockfileIncomplete, |f| {
            lock(f, None, |pin| {
                pin["name"] = "community.bench-corpus.elsewhere".into()
            });
        }),
        refused("locked-other-key", PackSignatureInvalid, |f| {
            lock(f, Some("bench-other"), |_| {})
        }),
        refused("locked-no-key", PackSignatureInvalid, |f| {
            lock(f, Some("bench-main"), |pin| {
                pin["signature"]["publicKey"] = "?".into()
            });
        }),
        refused("locked-no-signature", PackSignatureInvalid, |f| {
            lock(f, Some("bench-main"), |pin| {
                pin["signature"]["value"] = "?".into()
            });
        }),
        loads("locked-key-as-pem", |f| {
            lock(f, Some("bench-main"), |pin| {
                pin["signature"]["publicKey"] = key("bench-main").public().to_pem().into();
            });
        }),
    ]
}

fn trust_cases() -> Vec<Case> {
    let approved = |entries: &'static [&'static str]| {
        move |f: &mut Forge| {
            f.trust.mode = TrustMode::Allowlist;
            f.trust.approved = entries.iter().map(|entry| (*entry).to_owned()).collect();
        }
    };
    vec![
        refused("allowlist-empty", PackNotApproved, approved(&[])),
        loads(
            "allowlist-name",
            approved(&["community.bench-corpus.allowlist-name"]),
        ),
        loads(
            "allowlist-version",
            approved(&["community.bench-corpus.allowlist-version@1.0.0"]),
        ),
        refused(
            "allowlist-other-version",
            PackNotApproved,
            approved(&["community.bench-corpus.allowlist-other-version@2.0.0"]),
        ),
        loads("allowlist-space", approved(&["community.bench-corpus.*"])),
        refused("pinned-without-lockfile", PackLockfileIncomplete, |f| {
            f.trust.mode = TrustMode::Pinned
        }),
        loads("pinned", |f| {
            f.trust.mode = TrustMode::Pinned;
            lock(f, None, |_| {});
        }),
        refused("coverage-demanded", PackSignatureInvalid, |f| {
            f.policy.require_full_coverage = true
        }),
        loads("coverage-given", |f| {
            f.policy.require_full_coverage = true;
            f.method = "ed25519";
        }),
        loads_and(
            "open-unsigned",
            |pack| {
                pack.signature.coverage == SignatureCoverage::None
                    && pack.warnings.iter().any(|w| w.contains("unsigned"))
            },
            |f| {
                f.trust.mode = TrustMode::Open;
                f.manifest["signing"] = json!({});
                f.bend_served(|s| drop(s.as_object_mut().unwrap().remove("signing")));
            },
        ),
        refused("open-wrongly-signed", PackSignatureInvalid, |f| {
            f.trust.mode = TrustMode::Open;
            f.signature = Some(Box::new(|_| vec![1; 64]));
        }),
        loads_and(
            "open-without-keys",
            |pack| pack.signature.coverage == SignatureCoverage::None,
            |f| {
                f.trust.mode = TrustMode::Open;
                f.trust.keys = KeyRing::default();
            },
        ),
    ]
}
