//! `touchstone rating badge verify`: files only, and the same verdict as the libraries of others.

use std::path::Path;

use serde_json::json;
use touchstone_ratings::credential::baking;

use crate::cli::home::{Done, touchstone};
use crate::support::badges::{self, Case, cases};

fn verify(case: &Case, more: &[&str]) -> Done {
    let mut command = touchstone();
    command
        .args(["rating", "badge", "verify"])
        .arg(&case.file)
        .args(more);
    for (option, file) in [
        ("--status-list", &case.status),
        ("--issuer-document", &case.did),
    ] {
        if let Some(file) = file {
            command.arg(option).arg(file);
        }
    }
    Done::of(&mut command)
}

#[test]
fn the_exit_code_tells_whether_a_badge_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    for case in cases(folder.path()) {
        let done = verify(&case, &["--json"]);
        let expected = i32::from(!case.good);
        assert_eq!(
            done.code,
            expected,
            "{}: {}",
            case.file.display(),
            done.stdout
        );
        let document = done.document();
        assert_eq!(document["ok"], json!(case.good));
        assert_eq!(document["reasons"] == json!([]), case.good);
    }
}

#[test]
fn text_output_names_the_agent_and_the_reasons() {
    let folder = tempfile::tempdir().unwrap();
    let cases = cases(folder.path());
    let of = |name: &str| {
        let named = |case: &&Case| case.file.ends_with(name);
        verify(cases.iter().find(named).unwrap(), &[])
    };
    let good = of("good.png");
    assert!(
        good.stdout
            .starts_with("✓ the badge is valid: AAAF: Expert"),
        "{}",
        good.stdout
    );
    assert!(good.stdout.contains("invoice-reader"), "{}", good.stdout);
    assert!(good.stdout.contains("(did:key:z6Mk"), "{}", good.stdout);
    assert_eq!(good.stderr, "");
    // The report names the checks that were skipped.
    assert!(of("unlisted.json").stderr.contains("--status-list"));
    for (file, reason) in [
        ("revoked.svg", "revoked: did:key:"),
        ("expired.json", "expired: it was valid until"),
        ("changed-score.png", "unproven: /proof/proofValue"),
        (
            "added.json",
            "unproven: /credentialSubject/bestOfAll is not defined",
        ),
        ("web-foreign.json", "unproven: the DID document of did:web:"),
    ] {
        let done = of(file);
        assert_eq!(done.code, 1);
        assert!(done.stdout.contains(reason), "{file}: {}", done.stdout);
    }
}

#[test]
fn a_badge_image_that_differs_from_its_credential_is_invalid() {
    let folder = tempfile::tempdir().unwrap();
    let cases = cases(folder.path());
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    let text = String::from_utf8(read("good.svg")).unwrap();
    let change = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1).into_bytes()
    };
    let other = {
        let other = read("named-0.svg");
        let picture = String::from_utf8(other).unwrap();
        let inner = |text: &str| {
            let begin = text.find("<openbadges:credential").unwrap();
            let end = text.find("</openbadges:credential>").unwrap();
            text[begin..end].to_owned()
        };
        picture
            .replace(&inner(&picture), &inner(&text))
            .into_bytes()
    };
    // Only the picture is changed: the proof of the embedded credential still verifies.
    let score = ">0.82</text>";
    let altered = [
        ("tier.svg", change(">Expert</text>", ">Elite</text>")),
        ("score.svg", change(score, ">0.99</text>")),
        (
            "name.svg",
            change(">invoice-reader</text>", ">other-reader</text>"),
        ),
        ("date.svg", change("Valid until 20", "Valid until 21")),
        (
            "over.svg",
            change("</svg>", "<rect width=\"300\" height=\"150\"/></svg>"),
        ),
        ("title.svg", change("Expert;", "Elite;")),
        ("of-another.svg", other),
    ];
    let status = cases.iter().find(|it| it.file.ends_with("good.svg"));
    let status = status.unwrap().status.clone();
    let judged = |file: &str| {
        let case = Case {
            file: folder.path().join(file),
            status: status.clone(),
            did: None,
            good: false,
        };
        verify(&case, &["--json"])
    };
    for (name, bytes) in altered {
        std::fs::write(folder.path().join(name), bytes).unwrap();
        let done = judged(name);
        assert_eq!(done.code, 1, "{name}: {}", done.stdout);
        let reasons = &done.document()["reasons"];
        assert_eq!(reasons[0]["code"], "picture_altered", "{name}: {reasons}");
        assert_eq!(reasons.as_array().unwrap().len(), 1, "{name}");
    }
    // The credential embedded in the picture of a different badge.
    let (good, other) = (read("good.png"), read("good.svg"));
    let credential = baking::extract(&other).unwrap();
    let painted = badges::painted("named otherwise");
    let baked = baking::png::bake(&painted, std::str::from_utf8(&credential).unwrap()).unwrap();
    assert_ne!(baked, good);
    std::fs::write(folder.path().join("of-another.png"), baked).unwrap();
    let done = judged("of-another.png");
    assert_eq!(done.document()["reasons"][0]["code"], "picture_altered");
    assert_eq!(judged("good.png").code, 0);
}

#[test]
fn a_file_without_a_badge_is_bad_input() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let run = |arguments: &[&Path]| {
        Done::of(
            touchstone()
                .args(["rating", "badge", "verify"])
                .args(arguments),
        )
    };
    for (name, text) in [
        (
            "empty.svg",
            &b"<svg xmlns=\"http://www.w3.org/2000/svg\"><g/></svg>"[..],
        ),
        ("cut.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
        ("text.json", b"hello"),
        ("twice.json", br#"{"id": 1, "id": 2}"#),
    ] {
        let done = run(&[&file(name, text)]);
        assert_eq!(done.code, 2, "{name}: {}", done.stderr);
        assert!(
            done.stderr.contains("does not contain a badge"),
            "{}",
            done.stderr
        );
    }
    assert_eq!(run(&[&folder.path().join("absent")]).code, 2);
    // Any other document counts as an invalid badge.
    assert_eq!(run(&[&file("other.json", b"{}")]).code, 1);
}
