//! The pack commands: output, exit codes, and files left behind.

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs `touchstone` in this folder with the given arguments only.
    fn run(&self, arguments: &str) -> Output {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("touchstone"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TOUCHSTONE_")) {
            command.env_remove(name);
        }
        command
            .current_dir(self.path())
            .args(arguments.split_whitespace())
            .output()
            .unwrap()
    }

    fn expect(&self, exit: i32, arguments: &str) -> String {
        let output = self.run(arguments);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(
            output.status.code(),
            Some(exit),
            "{arguments}\n{out}\n{err}"
        );
        out
    }

    fn json(&self, exit: i32, arguments: &str) -> Value {
        let out = self.expect(exit, &format!("{arguments} --json"));
        serde_json::from_str(&out).unwrap_or_else(|_| panic!("no JSON: {out}"))
    }

    fn code(&self, exit: i32, arguments: &str) -> String {
        let document = self.json(exit, arguments);
        assert_eq!(document["ok"], false);
        document["error"]["code"].as_str().unwrap().to_owned()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A folder with a signed pack.
fn published() -> Folder {
    let folder = Folder::new();
    folder.expect(0, "pack init triage --name vendor.acme.triage");
    folder.expect(0, "pack keygen --out acme.pem --key-id acme-1");
    folder.expect(
        0,
        "pack sign triage --key acme.pem --key-id acme-1 --out triage.tgz",
    );
    folder
}

const TRUSTED: &str = "--trust-key acme-1=acme.pub:vendor.acme.*";

#[test]
fn a_pack_is_created_signed_installed_and_removed() {
    let folder = published();
    folder.expect(0, "pack lint triage");
    let sound = folder.json(0, &format!("pack verify triage.tgz {TRUSTED}"));
    assert_eq!(sound["ok"], true);
    assert_eq!(sound["pack"]["signature"]["coverage"], "tarball");
    assert!(
        !folder.path().join(".touchstone").exists(),
        "verify installs nothing"
    );

    folder.expect(0, &format!("pack install triage.tgz {TRUSTED}"));
    let listed = folder.json(0, "pack list");
    assert_eq!(listed["packs"][0]["name"], "vendor.acme.triage");
    let shown = folder.expect(0, "pack list");
    assert!(
        shown.contains("vendor.acme.triage.default (classification)"),
        "the value for --agent is shown: {shown}"
    );
    let suites = folder.json(0, "suite list");
    assert_eq!(suites["suites"][0]["signed"], true);
    folder.expect(0, "pack remove vendor.acme.triage@0.1.0");
    assert_eq!(folder.json(0, "pack list")["packs"], serde_json::json!([]));
    folder.expect(2, "pack remove vendor.acme.triage@0.1.0");
}

#[test]
fn the_stress_tests_are_signed_and_installed_like_any_pack() {
    let folder = Folder::new();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/packs/aaaf-stress-tests");
    folder.expect(0, "pack keygen --out core.pem --key-id core-1");
    folder.expect(
        0,
        &format!("pack sign {source} --key core.pem --key-id core-1 --out stress.tgz"),
    );
    let trusted = "--trust-key core-1=core.pub:core.aaaf.*";
    let sound = folder.json(0, &format!("pack verify stress.tgz {trusted}"));
    assert_eq!(sound["pack"]["signature"]["coverage"], "tarball");
    folder.expect(0, &format!("pack install stress.tgz {trusted}"));
    let suites = folder.json(0, "suite list");
    let suites = suites["suites"].as_array().unwrap();
    assert!(
        suites.iter().all(|suite| suite["signed"] == true),
        "{suites:?}"
    );
    // The seventh is generated for the agent's tools.
    assert_eq!(suites.len(), 6, "{suites:?}");
}

#[test]
fn a_refused_pack_says_why_and_leaves_nothing() {
    let folder = published();
    let refused = folder.json(1, "pack verify triage.tgz");
    assert_eq!(refused["error"]["code"], "signature_unknown_key");
    assert_eq!(refused["error"]["stage"], "signature");
    assert!(
        refused["error"]["reason"]
            .as_str()
            .unwrap()
            .contains("acme-1")
    );
    let foreign = "--trust-key acme-1=acme.pub:vendor.other.*";
    assert_eq!(
        folder.code(1, &format!("pack verify triage.tgz {foreign}")),
        "pack_namespace_unauthorized"
    );
    assert_eq!(
        folder.code(1, "pack install triage.tgz"),
        "signature_unknown_key"
    );
    assert!(
        !folder.path().join(".touchstone").exists(),
        "a refused pack does not open the store"
    );

    let mut bytes = std::fs::read(folder.path().join("triage.tgz")).unwrap();
    bytes[100] ^= 1;
    std::fs::write(folder.path().join("triage.tgz"), bytes).unwrap();
    assert_eq!(
        folder.code(1, &format!("pack verify triage.tgz {TRUSTED}")),
        "pack_integrity_mismatch"
    );
}

#[test]
fn unreadable_packs_are_reported_differently_from_refused_ones() {
    let folder = published();
    assert_eq!(folder.code(2, "pack verify none.tgz"), "unreadable");
    assert_eq!(
        folder.code(2, "pack verify vendor.acme.triage@0.1.0"),
        "usage"
    );
    assert_eq!(
        folder.code(2, "pack verify triage.tgz --lockfile none.json"),
        "unreadable"
    );
    let unreachable = "pack verify vendor.acme.triage@0.1.0 --registry";
    assert_eq!(
        folder.code(3, &format!("{unreachable} ./none")),
        "pack_registry_unreachable"
    );
    assert_eq!(
        folder.code(3, &format!("{unreachable} http://127.0.0.1:9")),
        "pack_registry_unreachable"
    );
    folder.expect(2, "pack verify triage.tgz --trust-key acme-1");
    folder.expect(2, "pack verify triage.tgz --trust blind");
}

#[test]
fn an_unsigned_archive_needs_open_trust_and_is_marked() {
    let folder = published();
    folder.expect(0, "pack build triage --out plain.tgz");
    assert_eq!(
        folder.code(1, "pack verify plain.tgz"),
        "pack_signature_invalid"
    );
    let open = folder.json(0, "pack verify plain.tgz --trust open");
    assert_eq!(open["pack"]["signature"]["coverage"], "none");
    assert_eq!(open["pack"]["suites"][0]["signed"], false);
}

#[test]
fn a_manifest_signature_needs_no_companions_and_covers_less() {
    let folder = published();
    folder.expect(
        0,
        "pack sign triage --method manual --key acme.pem --key-id acme-1 --out manual.tgz",
    );
    std::fs::remove_file(folder.path().join("manual.sig")).unwrap();
    std::fs::remove_file(folder.path().join("manual.json")).unwrap();
    let sound = folder.json(0, &format!("pack verify manual.tgz {TRUSTED}"));
    assert_eq!(sound["pack"]["signature"]["coverage"], "manifest");
    let demanding = format!("pack verify manual.tgz {TRUSTED} --require-full-coverage");
    assert_eq!(folder.code(1, &demanding), "pack_signature_invalid");
}

#[test]
fn a_lockfile_from_the_first_install_detects_a_replaced_archive() {
    let folder = published();
    folder.expect(
        0,
        &format!("pack install triage.tgz {TRUSTED} --lockfile pack-lock.json --pin"),
    );
    folder.expect(
        0,
        &format!("pack verify triage.tgz {TRUSTED} --lockfile pack-lock.json"),
    );
    let before = std::fs::read(folder.path().join("pack-lock.json")).unwrap();
    folder.expect(
        0,
        &format!("pack install triage.tgz {TRUSTED} --lockfile pack-lock.json --pin"),
    );
    assert_eq!(
        std::fs::read(folder.path().join("pack-lock.json")).unwrap(),
        before
    );

    std::fs::write(
        folder.path().join("triage/prompts/agent.md"),
        "Always say billing.",
    )
    .unwrap();
    folder.expect(
        0,
        "pack sign triage --key acme.pem --key-id acme-1 --out triage.tgz",
    );
    folder.expect(0, &format!("pack verify triage.tgz {TRUSTED}"));
    let locked = format!("pack verify triage.tgz {TRUSTED} --lockfile pack-lock.json");
    assert_eq!(folder.code(1, &locked), "pack_integrity_mismatch");
    let pinning = format!("pack install triage.tgz {TRUSTED} --lockfile pack-lock.json --pin");
    assert_eq!(folder.code(1, &pinning), "pack_integrity_mismatch");
}

/// A signed pack, with its lockfile in `right.json` and a lockfile for other content in
/// `wrong.json`.
fn locked() -> Folder {
    let folder = published();
    folder.expect(
        0,
        &format!("pack install triage.tgz {TRUSTED} --lockfile right.json --pin"),
    );
    folder.expect(0, "pack remove vendor.acme.triage@0.1.0");
    let right = std::fs::read_to_string(folder.path().join("right.json")).unwrap();
    let lock: Value = serde_json::from_str(&right).unwrap();
    let digest = lock["packs"][0]["integrity"].as_str().unwrap();
    let other = format!("sha256-{}=", "A".repeat(43));
    let wrong = right.replace(digest, &other);
    std::fs::write(folder.path().join("wrong.json"), wrong).unwrap();
    folder
}

fn configure(folder: &Folder, settings: &str) {
    let text = format!("[packs]\n{settings}\n");
    std::fs::write(folder.path().join("touchstone.toml"), text).unwrap();
}

#[test]
fn the_lockfile_of_the_configuration_binds_a_local_install() {
    let folder = locked();
    let install = format!("pack install triage.tgz {TRUSTED}");
    let verify = format!("pack verify triage.tgz {TRUSTED}");
    let pinning = format!("{install} --lockfile right.json");

    configure(&folder, "lockfile = \"wrong.json\"");
    for refused in [&install, &verify, &pinning] {
        assert_eq!(folder.code(1, refused), "pack_integrity_mismatch");
    }
    let empty = r#"{"lockfileVersion": 1, "generatedAt": "2026-01-01T00:00:00Z", "packs": []}"#;
    std::fs::write(folder.path().join("empty.json"), empty).unwrap();
    configure(&folder, "lockfile = \"empty.json\"");
    let adding = format!("{install} --lockfile other.json --pin");
    for refused in [&install, &adding] {
        assert_eq!(folder.code(1, refused), "pack_lockfile_incomplete");
    }
    configure(&folder, "");
    assert_eq!(
        folder.json(0, "pack list")["packs"],
        serde_json::json!([]),
        "nothing was installed"
    );

    configure(&folder, "lockfile = \"right.json\"");
    let wrong = format!("{install} --lockfile wrong.json");
    assert_eq!(folder.code(1, &wrong), "pack_integrity_mismatch");
    folder.expect(0, &install);
}

#[test]
fn under_pinned_trust_the_right_lockfile_installs_and_no_other() {
    for (settings, flag) in [
        ("trust = \"pinned\"\nlockfile = \"right.json\"", ""),
        ("trust = \"pinned\"", "--lockfile right.json"),
        (
            "trust = \"pinned\"\nlockfile = \"right.json\"",
            "--lockfile right.json",
        ),
    ] {
        let folder = locked();
        configure(&folder, settings);
        folder.expect(0, &format!("pack install triage.tgz {TRUSTED} {flag}"));
    }
    let folder = locked();
    configure(&folder, "trust = \"pinned\"");
    let wrong = format!("pack install triage.tgz {TRUSTED} --lockfile wrong.json");
    assert_eq!(folder.code(1, &wrong), "pack_integrity_mismatch");
    let without = format!("pack install triage.tgz {TRUSTED}");
    assert_eq!(folder.code(1, &without), "pack_lockfile_incomplete");
}

#[test]
fn a_lockfile_that_does_not_exist_is_an_error_unless_it_is_to_be_created() {
    let folder = published();
    for command in ["install", "verify"] {
        let arguments = format!("pack {command} triage.tgz {TRUSTED} --lockfile absent.json");
        let error = folder.json(2, &arguments)["error"].clone();
        assert_eq!(error["code"], "unreadable");
        let message = error["message"].as_str().unwrap();
        assert!(
            message.starts_with("could not read `--lockfile` absent.json"),
            "{error}"
        );
        assert!(error.to_string().contains("--pin"), "{error}");
    }
    assert_eq!(
        folder.json(0, "pack list")["packs"],
        serde_json::json!([]),
        "nothing was installed"
    );
    // A path below a file cannot be created.
    std::fs::write(folder.path().join("file"), "").unwrap();
    let below = format!("pack install triage.tgz {TRUSTED} --lockfile file/lock.json --pin");
    assert_eq!(folder.code(2, &below), "unreadable");
    assert_eq!(
        folder.json(0, "pack list")["packs"],
        serde_json::json!([]),
        "nothing was installed"
    );
    folder.expect(
        0,
        &format!("pack install triage.tgz {TRUSTED} --lockfile absent.json --pin"),
    );
}

#[test]
fn signing_the_archive_again_gives_the_same_bytes() {
    let folder = published();
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    let before = (read("triage.tgz"), read("triage.sig"), read("triage.json"));
    folder.expect(0, "pack sign triage.tgz --key acme.pem --key-id acme-1");
    assert_eq!(
        (read("triage.tgz"), read("triage.sig"), read("triage.json")),
        before
    );
    // A build output inside the folder is not part of the pack.
    folder.expect(
        0,
        "pack sign triage --key acme.pem --key-id acme-1 --out triage/out.tgz",
    );
    folder.expect(
        0,
        "pack sign triage --key acme.pem --key-id acme-1 --out triage/out.tgz",
    );
    assert_eq!(read("triage/out.tgz"), before.0);
}

#[test]
fn a_key_is_not_overwritten_nor_published() {
    let folder = published();
    let before = std::fs::read(folder.path().join("acme.pem")).unwrap();
    folder.expect(2, "pack keygen --out acme.pem --key-id acme-1");
    // An existing public key of another pair is not overwritten either, and no private key is left
    // without its public key.
    std::fs::rename(
        folder.path().join("acme.pem"),
        folder.path().join("mine.pem"),
    )
    .unwrap();
    let public = std::fs::read(folder.path().join("acme.pub")).unwrap();
    folder.expect(2, "pack keygen --out acme.pem --key-id acme-1");
    assert!(!folder.path().join("acme.pem").exists());
    assert_eq!(
        std::fs::read(folder.path().join("acme.pub")).unwrap(),
        public
    );
    std::fs::rename(
        folder.path().join("mine.pem"),
        folder.path().join("acme.pem"),
    )
    .unwrap();
    assert_eq!(
        std::fs::read(folder.path().join("acme.pem")).unwrap(),
        before
    );
    std::fs::copy(
        folder.path().join("acme.pem"),
        folder.path().join("triage/acme.pem"),
    )
    .unwrap();
    assert_eq!(folder.code(2, "pack build triage"), "private_key_in_pack");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(folder.path().join("acme.pem"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn a_build_does_not_slip_under_a_signature() {
    let folder = published();
    assert_eq!(
        folder.code(2, "pack build triage --out triage.tgz"),
        "would_break_a_signature"
    );
    folder.expect(0, &format!("pack verify triage.tgz {TRUSTED}"));
    folder.expect(0, "pack build triage --out plain.tgz");
    folder.expect(0, "pack build triage --out plain.tgz");
}

#[test]
fn lint_lists_all_faults_and_build_refuses_them() {
    let folder = published();
    let suite = folder.path().join("triage/evals/label.json");
    let broken = std::fs::read_to_string(&suite)
        .unwrap()
        .replace("login-error", "double-charge");
    std::fs::write(&suite, broken.replace("0.8", "1.8")).unwrap();
    let linted = folder.json(1, "pack lint triage");
    assert_eq!(linted["findings"][0]["file"], "evals/label.json");
    folder.expect(1, "pack build triage --out x.tgz");
    assert!(!folder.path().join("x.tgz").exists());
    let faults = folder.json(1, "suite lint triage/evals/label.json");
    assert_eq!(faults["faults"][0]["pointer"], "/thresholds/passScore");
}

#[test]
fn a_suite_is_imported_unsigned_once_it_is_valid() {
    let folder = published();
    folder.expect(0, "suite lint triage/evals/label.json");
    folder.expect(0, "suite import triage/evals/label.json");
    let listed = folder.json(0, "suite list");
    assert_eq!(listed["suites"][0]["signed"], false);
    assert!(listed["suites"][0].get("pack").is_none());
    std::fs::write(folder.path().join("no.json"), "{}").unwrap();
    folder.expect(2, "suite import no.json");
}

#[test]
fn importing_a_suite_of_an_installed_pack_keeps_the_packs_copy() {
    let folder = published();
    folder.expect(0, &format!("pack install triage.tgz {TRUSTED}"));
    let said = folder.expect(0, "suite import triage/evals/label.json");
    assert!(
        said.contains(" signed, from vendor.acme.triage@0.1.0"),
        "{said}"
    );
    assert!(!said.contains("imported"), "{said}");
    let imported = folder.json(0, "suite import triage/evals/label.json");
    let listed = folder.json(0, "suite list");
    assert_eq!(
        imported["suite"], listed["suites"][0],
        "the response shows the suite that runs use"
    );
    assert_eq!(imported["suite"]["signed"], true);

    folder.expect(0, "pack remove vendor.acme.triage@0.1.0");
    let listed = folder.json(0, "suite list");
    assert_eq!(
        listed["suites"][0]["signed"], false,
        "as the import reported"
    );

    folder.expect(0, &format!("pack install triage.tgz {TRUSTED}"));
    let suite = folder.path().join("triage/evals/label.json");
    let changed = std::fs::read_to_string(&suite)
        .unwrap()
        .replace("0.8", "0.7");
    std::fs::write(&suite, changed).unwrap();
    let conflict = folder.json(2, "suite import triage/evals/label.json");
    let message = conflict["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("from vendor.acme.triage@0.1.0"),
        "{message}"
    );
}

#[test]
fn packs_that_a_pack_depends_on_are_shown_wherever_it_is() {
    let folder = published();
    let manifest = folder.path().join("triage/pack.json");
    let mut document: Value = serde_json::from_slice(&std::fs::read(&manifest).unwrap()).unwrap();
    document["dependencies"] = serde_json::json!({"vendor.acme.shared": "^1.2.0"});
    std::fs::write(&manifest, document.to_string()).unwrap();
    let linted = folder.json(0, "pack lint triage");
    assert!(
        linted
            .to_string()
            .contains("vendor.acme.shared is not installed with the pack")
    );
    folder.expect(
        0,
        "pack sign triage --key acme.pem --key-id acme-1 --out triage.tgz",
    );
    for (command, said) in [
        (
            "pack inspect triage.tgz".to_owned(),
            "depends    on vendor.acme.shared@^1.2.0",
        ),
        (
            format!("pack verify triage.tgz {TRUSTED}"),
            "vendor.acme.shared@^1.2.0; not installed automatically",
        ),
        (
            format!("pack install triage.tgz {TRUSTED}"),
            "vendor.acme.shared@^1.2.0; not installed automatically",
        ),
        (
            "pack list".to_owned(),
            "vendor.acme.shared@^1.2.0; not installed automatically",
        ),
    ] {
        let out = folder.expect(0, &command);
        assert!(out.contains(said), "{command}\n{out}");
    }
    let listed = folder.json(0, "pack list");
    assert_eq!(
        listed["packs"][0]["dependencies"],
        serde_json::json!({"vendor.acme.shared": "^1.2.0"})
    );
}

#[test]
fn inspect_shows_the_content_without_verifying_it() {
    let folder = published();
    let shown = folder.json(0, "pack inspect triage.tgz");
    assert_eq!(shown["verified"], false);
    assert_eq!(shown["files"].as_array().unwrap().len(), 6);
    std::fs::write(folder.path().join("no.tgz"), "no").unwrap();
    assert_eq!(
        folder.code(1, "pack inspect no.tgz"),
        "tarball_gunzip_failed"
    );
}
