//! API keys.

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
    // The secret half may hold the separator too.
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
