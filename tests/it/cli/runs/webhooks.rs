//! `touchstone webhook`.

use crate::cli::home::Home;

#[test]
fn a_subscription_is_made_listed_and_removed_and_its_secret_is_alone_on_stdout() {
    let home = Home::empty();
    let made = home.run(&["webhook", "add", "https://9.9.9.9/hook", "--tag", "nightly"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let secret = made.stdout.strip_suffix('\n').unwrap();
    assert_eq!(secret.len(), 64, "{secret:?}");
    assert!(!made.stderr.contains(secret));
    let listed = home.run(&["--json", "webhook", "list"]).document();
    let webhook = &listed["webhooks"][0];
    assert_eq!(
        webhook["events"],
        serde_json::json!(["run.completed", "run.failed", "run.cancelled"])
    );
    assert_eq!(webhook["tags"], serde_json::json!(["nightly"]));
    assert!(!listed.to_string().contains(secret));
    let id = webhook["webhookId"].as_str().unwrap();
    let shown = home.run(&["webhook", "list"]);
    assert!(shown.stdout.starts_with(id) && shown.stdout.contains("active"));

    let none = home.run(&["webhook", "dead-letters", id]);
    assert_eq!(
        (none.code, none.stdout.as_str()),
        (0, ""),
        "{}",
        none.stderr
    );
    let none = home
        .run(&["--json", "webhook", "dead-letters", id])
        .document();
    assert_eq!(none, serde_json::json!({"deliveries": []}));
    assert_eq!(home.run(&["webhook", "dead-letters", "wh_none"]).code, 2);

    let plain = home.run(&["webhook", "rotate", id]);
    assert_eq!(plain.code, 2, "it has room for one signature only");
    assert_eq!(home.run(&["webhook", "remove", id]).code, 0);
    let gone = home.run(&["--json", "webhook", "remove", id]);
    assert_eq!(gone.code, 2);
    assert_eq!(gone.document()["error"]["code"], "subscription_not_found");
}

#[test]
fn a_secret_is_read_from_a_file_and_a_refused_url_says_why() {
    let home = Home::empty();
    let file = home.path("secret");
    std::fs::write(&file, "brought-along-0123456789\n").unwrap();
    let made = home.run(&[
        "--json",
        "webhook",
        "add",
        "https://9.9.9.9/hook",
        "--event",
        "eval.completed",
        "--secret-file",
        file.to_str().unwrap(),
    ]);
    assert_eq!(
        made.document()["webhook"]["secret"],
        "brought-along-0123456789"
    );
    for (url, code) in [
        ("http://127.0.0.1:8080/", "webhook_url_rejected"),
        ("https://169.254.169.254/", "webhook_url_rejected"),
    ] {
        let refused = home.run(&["--json", "webhook", "add", url]);
        assert_eq!(refused.code, 2);
        assert_eq!(refused.document()["error"]["code"], code);
    }
    assert_eq!(home.run(&["webhook", "add", "nowhere"]).code, 2);
}
