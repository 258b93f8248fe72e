//! Reports are complete, inert and self-contained.

use roxmltree::{Document, Node};

use crate::render::report::*;

fn pages() -> [String; 2] {
    let (report, summary) = (sample::report(), sample::summary());
    [
        report.write(Format::Html).unwrap(),
        summary.write(Format::Html).unwrap(),
    ]
}

/// Parses a page as XML, the strictest syntax.
fn read(page: &str) -> Document<'_> {
    let body = page.strip_prefix("<!doctype html>\n").unwrap();
    Document::parse(body).unwrap_or_else(|fault| panic!("{fault}\n{page}"))
}

fn text(node: Node<'_, '_>) -> String {
    let parts = node.descendants().filter(Node::is_text);
    parts
        .filter_map(|it| it.text())
        .collect::<Vec<_>>()
        .join("")
}

#[test]
fn the_markdown_reports_match_their_snapshots() {
    // The release version is masked.
    let of_any = |text: String| text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    let report = sample::report().write(Format::Markdown).unwrap();
    insta::assert_snapshot!("report", of_any(report));
    let summary = sample::summary().write(Format::Markdown).unwrap();
    insta::assert_snapshot!("summary", of_any(summary));
}

#[test]
fn a_page_has_no_active_content_and_loads_nothing() {
    for page in pages() {
        let document = read(&page);
        for node in document.descendants().filter(Node::is_element) {
            let name = node.tag_name().name();
            assert!(
                ![
                    "script", "link", "img", "iframe", "object", "image", "use", "a"
                ]
                .contains(&name),
                "{name}"
            );
            for attribute in node.attributes() {
                let called = attribute.name();
                assert!(
                    !called.starts_with("on") && !["href", "src", "style"].contains(&called),
                    "{called}"
                );
            }
        }
        assert!(
            !page.contains("url(") && !page.contains("@import"),
            "{page}"
        );
        assert!(page.contains("default-src 'none'"));
    }
}

#[test]
fn names_are_escaped_in_reports() {
    let page = sample::report().write(Format::Html).unwrap();
    let document = read(&page);
    let heading = document.descendants().find(|it| it.has_tag_name("h1"));
    assert_eq!(
        text(heading.unwrap()).trim(),
        "triage <script>alert(1)</script>"
    );
    let mut report = sample::report();
    report.agent.name = "a\u{202e}b`|*".to_owned();
    let written = report.write(Format::Markdown).unwrap();
    assert!(written.starts_with("# a b\\`\\|\\*\n"), "{written}");
    assert!(!report.write(Format::Html).unwrap().contains('\u{202e}'));
}

#[test]
fn the_chart_says_in_words_what_it_shows_and_is_reached_by_keyboard() {
    let report = sample::report();
    let page = report.write(Format::Html).unwrap();
    let document = read(&page);
    let plane = document
        .descendants()
        .find(|it| it.attribute("class") == Some("plane"))
        .unwrap();
    let named = plane.attribute("aria-labelledby").unwrap();
    for id in named.split(' ') {
        let label = plane
            .descendants()
            .find(|it| it.attribute("id") == Some(id));
        assert!(!text(label.unwrap()).is_empty(), "{id}");
    }
    let points: Vec<_> = plane
        .descendants()
        .filter(|it| it.attribute("role") == Some("img"))
        .collect();
    assert_eq!(points.len(), 1 + report.history.len());
    let focusable: Vec<_> = points
        .iter()
        .filter(|it| it.attribute("tabindex") == Some("0"))
        .collect();
    let label = format!(
        "now: performance {} {}, capability {} {}",
        report.now.performance.display,
        report.now.performance.tier,
        report.now.capability.display,
        report.now.capability.tier
    );
    assert_eq!(focusable.len(), 1);
    assert_eq!(focusable[0].attribute("aria-label"), Some(label.as_str()));
    // One row per dimension; unassessed ones show the reason.
    let rows = document.descendants().filter(|it| it.has_tag_name("tr"));
    let rows: Vec<String> = rows.map(text).collect();
    for name in ["Speed", "Orchestration Skills"] {
        assert!(rows.iter().any(|row| row.contains(name)), "{name}");
    }
    assert!(
        rows.iter().any(|row| row.contains("not assessed: ")),
        "{rows:?}"
    );
}

#[test]
fn chart_points_are_placed_by_their_scores() {
    let number = |text: &str| text.parse::<f64>().unwrap();
    let report = sample::report();
    let mut now = report.now.clone();
    for (share, corner) in [(0.0, (80.0, 306.0)), (1.0, (360.0, 26.0))] {
        now.performance.score = Score::of(share);
        now.capability.score = Score::of(share);
        let plane = chart::agent_plane(&[], &now);
        let dot = &plane.now[0];
        assert_eq!((number(&dot.x), number(&dot.y)), corner);
        // The label must stay within the picture.
        let label = number(&dot.label_x);
        assert!((80.0..=360.0).contains(&label), "{label}");
        assert!(number(&dot.label_y) > 26.0);
    }
    let bands = chart::agent_plane(&[], &now);
    for bands in [&bands.performance, &bands.capability] {
        let all: f64 = bands.iter().map(|band| number(&band.size)).sum();
        assert!((all - 280.0).abs() < 0.3, "{all}");
    }
}

#[test]
fn an_invalid_badge_is_never_reported_as_valid() {
    let mut report = sample::report();
    let mut rendered = |change: fn(&mut Badge)| {
        let mut badge = sample::report().badge.unwrap();
        change(&mut badge);
        report.badge = Some(badge);
        report.write(Format::Markdown).unwrap()
    };
    assert!(rendered(|_| {}).contains("Valid until 2026-07-15"));
    let revoked = rendered(|it| {
        (it.valid, it.revoked) = (false, true);
        it.revoke_reason = Some("evidence_invalid".to_owned());
    });
    assert!(revoked.contains("Revoked: evidence invalid"), "{revoked}");
    let expired = rendered(|it| (it.valid, it.expired) = (false, true));
    assert!(expired.contains("Expired on 2026-07-15"), "{expired}");
    let broken = rendered(|it| it.valid = false);
    assert!(broken.contains("Not valid"), "{broken}");
    report.badge = None;
    report.assessment.badge_state = Some("withheld".to_owned());
    let withheld = report.write(Format::Markdown).unwrap();
    assert!(withheld.contains("The badge is withheld"), "{withheld}");
}
