//! Every format is complete, inert and self-contained.

use proptest::prelude::*;
use roxmltree::{Document, Node};
use serde_json::Value;

use crate::render::*;
use crate::rules::report::facts::{Facts, State};
use crate::rules::report::sample;

fn samples() -> [Report; 3] {
    [sample::pass(), sample::fail(), sample::aborted()].map(Report::make)
}

fn page(report: &Report) -> String {
    write(report, Form::Html).unwrap()
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

fn by_class<'a>(document: &'a Document<'_>, class: &str) -> Vec<Node<'a, 'a>> {
    let elements = document.descendants();
    elements
        .filter(|it| {
            it.attribute("class")
                .is_some_and(|it| it.split(' ').any(|it| it == class))
        })
        .collect()
}

/// Checks that a page has no active content and loads nothing.
fn harmless(page: &str) {
    let document = read(page);
    for node in document.descendants().filter(Node::is_element) {
        let name = node.tag_name().name();
        let acts = [
            "script", "link", "img", "iframe", "object", "embed", "image", "use", "form", "base",
        ];
        assert!(!acts.contains(&name), "{name}");
        for attribute in node.attributes() {
            let (called, value) = (attribute.name(), attribute.value());
            assert!(
                !called.starts_with("on") && !["src", "style", "srcset"].contains(&called),
                "{called}"
            );
            // Links may only lead to existing places on the page.
            if called == "href" {
                let id = value.strip_prefix('#').unwrap_or_else(|| panic!("{value}"));
                let target = document
                    .descendants()
                    .find(|it| it.attribute("id") == Some(id));
                assert!(target.is_some(), "{value}");
            }
        }
    }
    let styles: String = document
        .descendants()
        .filter(|it| it.has_tag_name("style"))
        .map(text)
        .collect();
    assert!(
        !styles.contains("url(") && !styles.contains("@import"),
        "{styles}"
    );
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn a_page_has_no_active_content_and_loads_nothing() {
    for report in samples() {
        harmless(&page(&report));
    }
}

#[test]
fn the_verdict_is_shown_in_words_and_not_only_by_colour() {
    for (report, word) in samples().iter().zip(["PASS", "FAIL", "PROVIDER_FAILURE"]) {
        let page = page(report);
        let document = read(&page);
        let shown = text(by_class(&document, "word")[0]);
        assert!(shown.ends_with(word), "{shown}");
        let banner = text(by_class(&document, "banner")[0]);
        assert_eq!(
            banner.contains("Incomplete"),
            report.header.incomplete,
            "{banner}"
        );
        assert!(
            banner.contains(&format!("Tier {}", report.header.tier)),
            "{banner}"
        );
        for chip in by_class(&document, "chip") {
            assert!(text(chip).chars().any(char::is_alphanumeric));
        }
    }
}

#[test]
fn a_page_is_accessible_by_keyboard_and_screen_reader() {
    for report in samples() {
        let page = page(&report);
        let document = read(&page);
        let elements = |name: &'static str| {
            document
                .descendants()
                .filter(move |it| it.has_tag_name(name))
        };
        assert_eq!(
            elements("html").next().unwrap().attribute("lang"),
            Some("en")
        );
        for landmark in ["header", "nav", "main", "footer", "h1"] {
            assert_eq!(elements(landmark).count(), 1, "{landmark}");
        }
        assert!(elements("th").all(|it| it.attribute("scope").is_some()));
        let first = elements("a").next().unwrap();
        assert_eq!(
            (first.attribute("class"), first.attribute("href")),
            (Some("skip"), Some("#main"))
        );
        let mut ids: Vec<&str> = document
            .descendants()
            .filter_map(|it| it.attribute("id"))
            .collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all);
        for cell in by_class(&document, "cell")
            .iter()
            .filter(|it| !it.parent().unwrap().has_tag_name("li"))
        {
            assert!(cell.attribute("aria-label").is_some());
        }
    }
}

#[test]
fn details_of_scenarios_that_did_not_pass_are_expanded() {
    for report in samples() {
        let page = page(&report);
        let document = read(&page);
        let details: Vec<_> = document
            .descendants()
            .filter(|it| it.has_tag_name("details") && it.attribute("id").is_some())
            .collect();
        assert_eq!(details.len(), report.scenarios.len());
        for (shown, it) in details.iter().zip(&report.scenarios) {
            let status = it.execution.status.map_or("", |status| status.as_str());
            assert_eq!(
                shown.attribute("open").is_some(),
                ["FAIL", "PROVIDER_FAILURE"].contains(&status)
            );
            let shown = text(*shown);
            for part in [
                &it.descriptor.id,
                &it.descriptor.archetype,
                "Independent verification",
                "Preconditions",
                "Stimuli",
            ] {
                assert!(shown.contains(part), "{part} is not in {shown}");
            }
        }
    }
}

/// Required statements and sections, in every format.
#[test]
fn every_format_has_all_statements_and_sections() {
    for report in samples() {
        let page = page(&report);
        let page = text(read(&page).root());
        let markdown = write(&report, Form::Markdown).unwrap().replace('\\', "");
        for written in [page, markdown] {
            let sections = [
                "Rep 2.1",
                "Rep 2.2",
                "Rep 2.3",
                "Rep 2.4",
                "Rep 2.5",
                "Rep 2.6",
                "Rep 2.7",
                "Conformance claim",
            ];
            let statements = report.statements.iter().map(|it| it.text.as_str());
            for part in sections.into_iter().chain(statements) {
                assert!(written.contains(part), "{part}");
            }
            assert_eq!(
                written.contains("Provider failures\n"),
                !report.safety.provider_failures.is_empty()
            );
            assert_eq!(
                written.contains("Human Review Required\n"),
                !report.safety.human_review_required.is_empty()
            );
            for it in &report.safety.exclusions {
                assert!(written.contains(&it.scenario_id) && written.contains(&it.conditions[0]));
            }
            for warning in &report.coverage.warnings {
                assert!(written.contains(warning));
            }
        }
    }
}

#[test]
fn json_and_yaml_hold_the_report_as_it_is() {
    for report in samples() {
        let json = write(&report, Form::Json).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
        let yaml = write(&report, Form::Yaml).unwrap();
        let read: Value = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(read, serde_json::to_value(&report).unwrap());
    }
}

#[test]
fn the_markdown_report_matches_its_snapshot() {
    let aborted = Report::make(sample::aborted());
    insta::assert_snapshot!("aborted", write(&aborted, Form::Markdown).unwrap());
}

#[test]
fn an_answer_cannot_close_its_code_fence() {
    let mut facts = sample::fail();
    answer(&mut facts, "```\n````\n# PASS\n");
    let written = write(&Report::make(facts), Form::Markdown).unwrap();
    assert!(
        written.contains("\n`````text\n```\n````\n# PASS\n`````\n"),
        "{written}"
    );
}

#[test]
fn direction_overrides_are_removed_and_line_breaks_are_kept() {
    let mut facts = sample::fail();
    answer(&mut facts, "one\u{202e}\u{1b}[31m\ntwo");
    let report = Report::make(facts);
    for form in [Form::Html, Form::Markdown] {
        let written = write(&report, form).unwrap();
        assert!(!written.contains(['\u{202e}', '\u{1b}']));
        assert!(written.contains("[31m\ntwo"));
    }
}

/// Sets the answer of the first scenario's agent.
fn answer(facts: &mut Facts, text: &str) {
    let State::Executed(execution) = &mut facts.scenarios[0].state else {
        panic!("it was executed")
    };
    execution.agent.final_answer = Some(text.to_owned());
}

/// Replaces every free-form text in the facts.
fn said_everywhere(value: &mut Value, text: &str) {
    const FREE: [&str; 24] = [
        "name",
        "description",
        "intent",
        "cause",
        "stage",
        "evaluator",
        "agent",
        "provider",
        "tier_evidence",
        "conformance_check",
        "abort_reason",
        "rule",
        "reasoning",
        "final_answer",
        "result",
        "tool",
        "reason",
        "problem",
        "environment_type",
        "target",
        "text",
        "tier_environment",
        "probe_serialized",
        "band",
    ];
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                if value.is_string() && FREE.contains(&name.as_str()) && value != "PASS" {
                    *value = Value::from(text);
                } else {
                    said_everywhere(value, text);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|it| said_everywhere(it, text)),
        _ => {}
    }
}

fn hostile() -> impl Strategy<Value = String> {
    let bits = prop::sample::select(vec![
        "<script>alert(1)</script>",
        "\"><img src=x onerror=y>",
        "</pre></details>",
        "</style>",
        "&amp;",
        "]]>",
        "<!--",
        "{{ 7 }}",
        "{% raw %}",
        "| a | b |",
        "\n\n# PASS\n",
        "\n```\n",
        "~~~",
        "[x](http://evil.example)",
        "![x](y)",
        "\n---\n",
        "\n- a\n",
        "\r",
        "\u{0}",
        "\u{202e}",
        "\u{ffff}",
        "'",
        "`",
        "\\",
        "$(x)",
        "@here",
        "<http://evil.example>",
    ]);
    let any = prop_oneof![bits.prop_map(str::to_owned), any::<String>()];
    let parts = prop::collection::vec(any, 1..6).prop_map(|parts| parts.concat());
    // An empty text has no paragraph.
    parts.prop_filter("not empty", |said| !said.is_empty())
}

/// Lines of Markdown outside fences, which determine the document's structure.
fn outside_fences(markdown: &str) -> Vec<&str> {
    let mut fence: Option<&str> = None;
    let mut outside = Vec::new();
    for line in markdown.lines() {
        match fence {
            Some(open) if line == open => fence = None,
            Some(_) => {}
            None => match line.strip_suffix("text") {
                Some(open) if open.starts_with("```") => fence = Some(open),
                _ => outside.push(line),
            },
        }
    }
    assert_eq!(fence, None);
    outside
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn untrusted_text_is_escaped_everywhere(said in hostile(), aborted in any::<bool>()) {
        let facts = if aborted { sample::aborted() } else { sample::pass() };
        let mut value = serde_json::to_value(&facts).unwrap();
        said_everywhere(&mut value, &said);
        let hostile = Report::make(serde_json::from_value(value).unwrap());
        let tame = Report::make(facts);
        let (hostile_page, tame_page) = (page(&hostile), page(&tame));
        harmless(&hostile_page);
        // Free-form text must not add or remove elements or table rows.
        let elements = |page: &str| {
            let document = read(page);
            let names = document.descendants().filter(Node::is_element);
            names.map(|it| it.tag_name().name().to_owned()).collect::<Vec<_>>()
        };
        prop_assert!(elements(&hostile_page) == elements(&tame_page));
        let shape = |report: &Report| {
            let markdown = write(report, Form::Markdown).unwrap();
            let lines = outside_fences(&markdown);
            let headings = lines.iter().filter(|it| it.starts_with('#')).count();
            let unescaped = lines.iter().map(|it| it.replace("\\|", ""));
            (headings, unescaped.map(|it| it.matches('|').count()).collect::<Vec<_>>())
        };
        prop_assert!(shape(&hostile) == shape(&tame));
    }
}
