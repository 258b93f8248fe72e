//! API keys.

use touchstone_host::access::Scope;

use super::home::Home;

#[test]
fn a_new_key_is_alone_on_stdout_and_is_listed_without_its_secret() {
    let home = Home::empty();
    let made = home.run(&["key", "create", "--tenant", "acme", "--scope", "runs:read"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let key = made.stdout.strip_suffix('\n').unwrap();
    assert!(
        key.starts_with("tsk_") && !key.contains(char::is_whitespace),
        "{key:?}"
    );
    assert!(!made.stderr.contains(key));
    // The secret half may contain the separator too.
    let secret = key.splitn(3, '_').nth(2).unwrap();

    let listed = home
        .run(&["--json", "key", "list", "--tenant", "acme"])
        .document();
    assert_eq!(listed["keys"].as_array().unwrap().len(), 1);
    assert_eq!(listed["keys"][0]["state"], "active");
    assert_eq!(
        listed["keys"][0]["scopes"],
        serde_json::json!(["runs:read"])
    );
    assert!(!listed.to_string().contains(secret));
    assert_eq!(
        home.run(&["--json", "key", "list", "--tenant", "other"])
            .document()["keys"],
        serde_json::json!([])
    );
}

#[test]
fn listing_keys_creates_no_store() {
    let home = Home::empty();
    let listed = home.run(&["--json", "key", "list"]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    assert_eq!(listed.document()["keys"], serde_json::json!([]));
    assert!(!home.data().exists());
}

#[test]
fn a_revoked_key_stays_listed_and_an_unknown_one_is_refused() {
    let home = Home::empty();
    let made = home
        .run(&["--json", "key", "create", "--tenant", "acme"])
        .document();
    let id = made["id"].as_str().unwrap();
    assert_eq!(home.run(&["key", "revoke", id]).code, 0);
    assert_eq!(
        home.run(&["--json", "key", "list"]).document()["keys"][0]["state"],
        "revoked"
    );
    let unknown = home.run(&["key", "revoke", "nobody"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("try:"), "{}", unknown.stderr);
}

#[test]
fn a_rotated_key_keeps_its_id_and_gets_another_secret() {
    let home = Home::empty();
    let made = home
        .run(&[
            "--json",
            "key",
            "create",
            "--tenant",
            "acme",
            "--expires-in",
            "90d",
        ])
        .document();
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    let rotated = home.run(&["key", "rotate", id, "--overlap", "1h"]);
    assert_eq!(rotated.code, 0, "{}", rotated.stderr);
    let new = rotated.stdout.trim_end();
    assert!(
        new.starts_with(&format!("tsk_{id}_")) && new != key,
        "{new}"
    );
    let listed = home.run(&["--json", "key", "list"]).document();
    assert_eq!(listed["keys"][0]["state"], "rotating");
    assert_eq!(listed["keys"][0]["expiresAt"], made["expiresAt"]);
    let secret = new.splitn(3, '_').nth(2).unwrap();
    assert!(!listed.to_string().contains(secret));
    home.run(&["key", "revoke", id]);
    for unknown in [id, "nobody"] {
        let refused = home.run(&["key", "rotate", unknown]);
        assert_eq!((refused.code, refused.stdout.as_str()), (2, ""));
    }
}

#[test]
fn operator_scopes_are_granted_only_by_name() {
    let home = Home::empty();
    let scopes = |asked: &[&str]| {
        let asked = asked.iter().flat_map(|scope| ["--scope", scope]);
        let start = ["--json", "key", "create", "--tenant", "acme"];
        let arguments: Vec<&str> = start.into_iter().chain(asked).collect();
        let made = home.run(&arguments);
        assert_eq!(made.code, 0, "{}", made.stderr);
        let made = made.document();
        let scopes = made["scopes"].as_array().unwrap().iter();
        let scopes: Vec<String> = scopes.map(|it| it.as_str().unwrap().to_owned()).collect();
        scopes
    };
    let all = scopes(&["all"]);
    let mut expected: Vec<String> = Scope::within_tenant().map(|it| it.to_string()).collect();
    expected.sort_unstable();
    let mut sorted = all.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, expected);
    for operator in ["organizations:write", "metrics:read", "cluster:manage"] {
        assert!(!all.iter().any(|scope| scope == operator));
        assert!(
            scopes(&["all", operator])
                .iter()
                .any(|scope| scope == operator)
        );
    }
}

#[test]
fn a_key_file_that_also_signs_is_not_rotated_until_the_remedy_is_applied() {
    let home = Home::empty();
    let made = home.run(&["pack", "keygen", "--out", "host.pem", "--key-id", "host-1"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let models = std::fs::read_to_string(home.config()).unwrap();
    let rotate = |attest: &str| {
        let settings = format!(
            "[secrets]\nkey_file = \"host.pem\"\n[attest]\nkey_file = \"{attest}\"\n{models}"
        );
        std::fs::write(home.config(), settings).unwrap();
        home.run(&["key", "rotate-host"])
    };
    let refused = rotate("host.pem");
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(
        refused
            .stderr
            .contains("try: copy the file, set attest.key_file to the copy"),
        "{}",
        refused.stderr
    );
    std::fs::copy(home.path("host.pem"), home.path("attest.pem")).unwrap();
    let rotated = rotate("attest.pem");
    assert_eq!(rotated.code, 0, "{}", rotated.stderr);
}

#[test]
fn a_test_key_can_be_told_from_a_live_one_and_a_role_must_exist() {
    let home = Home::empty();
    let made = home.run(&[
        "key", "create", "--tenant", "ci", "--test", "--scope", "all",
    ]);
    assert!(made.stdout.starts_with("hk_test_"), "{}", made.stdout);
    let unknown = home.run(&["key", "create", "--tenant", "ci", "--role", "owner"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (2, ""));
    assert!(unknown.stderr.contains("[[roles]]"), "{}", unknown.stderr);
    let mut settings = std::fs::read_to_string(home.config()).unwrap();
    settings
        .push_str("\n[[roles]]\nname = \"owner\"\nscopes = [\"runs:read\", \"deploy:promote\"]\n");
    std::fs::write(home.config(), settings).unwrap();
    let made = home.run(&[
        "--json",
        "key",
        "create",
        "--tenant",
        "ci",
        "--role",
        "owner",
        "--principal",
        "dana",
    ]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let listed = home.run(&["--json", "key", "list"]).document();
    let kinds: Vec<_> = listed["keys"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| {
            (
                key["test"].clone(),
                key["roles"].clone(),
                key["principal"].clone(),
            )
        })
        .collect();
    use serde_json::json;
    assert_eq!(
        kinds,
        [
            (json!(true), json!([]), json!(null)),
            (json!(false), json!(["owner"]), json!("dana"))
        ]
    );
    for senseless in ["0d", "-1h", "soon", "200y"] {
        let refused = home.run(&["key", "create", "--tenant", "ci", "--expires-in", senseless]);
        assert_eq!(refused.code, 2, "{senseless}");
    }
}

#[test]
fn a_key_from_a_file_is_created_once_and_never_changed_again() {
    let home = Home::empty();
    let id = "0123456789abcdef0123";
    let text = format!("tsk_{id}_{}", "s".repeat(43));
    std::fs::write(home.path("key"), format!("{text}\n")).unwrap();
    let create = |scope: &str| {
        home.run(&[
            "--json",
            "key",
            "create",
            "--tenant",
            "acme",
            "--scope",
            scope,
            "--from-file",
            "key",
        ])
    };
    let made = create("runs:read").document();
    assert_eq!(made, serde_json::json!({"id": id, "created": true}));
    // A later start of a replica must not undo what the operator has done since.
    assert_eq!(home.run(&["key", "revoke", id]).code, 0);
    let again = create("all").document();
    assert_eq!(again, serde_json::json!({"id": id, "created": false}));
    let listed = home.run(&["--json", "key", "list"]).document();
    assert_eq!(listed["keys"].as_array().unwrap().len(), 1);
    assert_eq!(listed["keys"][0]["state"], "revoked");
    assert_eq!(
        listed["keys"][0]["scopes"],
        serde_json::json!(["runs:read"])
    );
}

#[test]
fn a_weak_key_from_a_file_is_refused_without_printing_it() {
    let home = Home::empty();
    for text in [
        "tsk_abc_tooshort",
        "hunter2",
        "tsk_local_sssssssssssssssssssssssssssssssssssssssssss",
    ] {
        std::fs::write(home.path("key"), text).unwrap();
        let refused = home.run(&["key", "create", "--tenant", "acme", "--from-file", "key"]);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(!refused.stderr.contains(text), "{}", refused.stderr);
        assert!(
            refused.stderr.contains("openssl rand"),
            "{}",
            refused.stderr
        );
    }
}
