//! The scores of an agent card for people: three bars, then the points by category, then findings.

pub mod page;

use std::fmt::{self, Write as _};

pub use crate::render::page::page;
use crate::rules::compliance;
use crate::rules::compliance::Compliance;
use crate::rules::finding::{Finding, Severity};
use crate::rules::history::code_of;
use crate::rules::live::availability;
use crate::rules::live::availability::{Availability, NotTested};
use crate::rules::points::Points;
use crate::rules::ranking::Ranking;
use crate::rules::signature::{SignatureResult, State};
use crate::rules::trust;
use crate::rules::trust::Trust;
use crate::rules::{Blocker, Scorecard, Shortfall, Thresholds};
use touchstone_host::render::colors::Colors;
use touchstone_host::render::table::Style;
use touchstone_host::render::words::plain;

/// Width of a bar in characters.
const BAR: u64 = 24;
/// Characters of a category's name.
const NAME: usize = 14;
/// Maximum number of findings shown per severity; the document has all recorded ones.
const SHOWN: usize = 40;

/// Renders the scores. `name` identifies the card, `below` lists the missed thresholds.
pub fn card(name: &str, scorecard: &Scorecard, below: &[Shortfall], style: Style) -> String {
    let mut text = String::new();
    let colors = style.colors;
    let _ = writeln!(text, "card          {}\n", colors.strong(&plain(name)));
    headlines(&mut text, scorecard, style);
    let verdict = if scorecard.production_ready {
        colors.good("ready for production")
    } else {
        colors.bad(&format!(
            "not ready for production: {}",
            listed(&scorecard.below(&Thresholds::PRODUCTION))
        ))
    };
    let _ = writeln!(text, "\n{verdict}");
    if !below.is_empty() {
        let missed = colors.bad(&format!("thresholds missed: {}", listed(below)));
        let _ = writeln!(text, "{missed}");
    }
    compliance_points(&mut text, &scorecard.compliance, colors);
    trust_points(&mut text, &scorecard.trust, colors);
    availability_points(&mut text, &scorecard.availability, colors);
    findings(&mut text, scorecard, colors);
    text
}

pub fn ranking(ranking: &Ranking, style: Style) -> String {
    let colors = style.colors;
    let mut text = format!("weights: {}\n\n", ranking.weights);
    let head = "rank   score  compliance   trust  availability  production  card";
    let _ = writeln!(text, "{}", colors.faint(head));
    for ranked in &ranking.ranking {
        let (rank, scores) = (ranked.rank, &ranked.scores);
        let score = colors.strong(&format!("{:>6}", shown(ranked.score)));
        let (compliance, trust) = (shown(scores.compliance.total), shown(scores.trust.total));
        let availability = scores.availability.map(|it| shown(it.total));
        let availability = availability.unwrap_or_else(|| "–".to_owned());
        let production = if scores.production_ready {
            colors.good("ready     ")
        } else {
            colors.doubtful("not ready ")
        };
        let card = plain(&ranked.card);
        let _ = writeln!(
            text,
            "{rank:>4}  {score}  {compliance:>10}  {trust:>6}  {availability:>12}  {production}  {card}"
        );
    }
    for unranked in &ranking.unranked {
        let (card, fault) = (plain(&unranked.card), colors.bad(&unranked.fault));
        let _ = writeln!(text, "   –  {card}\n      {fault}");
    }
    text
}

fn shown(points: Points) -> String {
    points.to_string()
}

fn listed(below: &[Shortfall]) -> String {
    let named = below.iter().map(|it| {
        let (name, value, least) = (it.blocker.name(), it.value, it.least);
        format!("{name} {value} is below {least}")
    });
    named.collect::<Vec<_>>().join(", ")
}

fn headlines(text: &mut String, scorecard: &Scorecard, style: Style) {
    let needs = Thresholds::PRODUCTION;
    let rows = [
        (
            Blocker::Compliance,
            Some(scorecard.compliance.total),
            scorecard.compliance.rating_label,
            needs.compliance,
        ),
        (
            Blocker::Trust,
            Some(scorecard.trust.total),
            scorecard.trust.rating_label,
            needs.trust,
        ),
        (
            Blocker::Availability,
            scorecard.availability.total,
            scorecard.availability.rating_label,
            needs.availability,
        ),
    ];
    for (dimension, total, label, needed) in rows {
        let name = dimension.name();
        let Some(total) = total else {
            let bar = if style.table {
                format!("{}  ", style.colors.faint(&bar(Points::default())))
            } else {
                String::new()
            };
            let why = scorecard.availability.not_tested_reason.map_or("", why_not);
            let _ = writeln!(text, "{name:<NAME$}{bar}{:>6}  {label}{why}", "–");
            continue;
        };
        let enough = total >= needed;
        let paint = |it: &str| match (enough, total.hundredths() * 2 >= needed.hundredths()) {
            (true, _) => style.colors.good(it),
            (false, true) => style.colors.doubtful(it),
            (false, false) => style.colors.bad(it),
        };
        let bar = if style.table {
            format!("{}  ", paint(&bar(total)))
        } else {
            String::new()
        };
        let short = if enough {
            String::new()
        } else {
            format!(", production takes {needed}")
        };
        let total = total.to_string();
        let _ = writeln!(
            text,
            "{name:<NAME$}{bar}{}  {}{short}",
            paint(&format!("{total:>6}")),
            style.colors.strong(label)
        );
    }
}

/// A bar; completely filled only for the maximum score.
fn bar(points: Points) -> String {
    let filled = (points.hundredths() * BAR / Points::whole(100).hundredths()).min(BAR);
    let cells = |cell: &str, n: u64| (0..n).map(|_| cell).collect::<String>();
    format!("{}{}", cells("█", filled), cells("░", BAR - filled))
}

const fn why_not(reason: NotTested) -> &'static str {
    match reason {
        NotTested::LiveTestingDisabled => "",
        NotTested::SchemaOnly => ": only the card's format was checked",
        NotTested::CardUnparseable => ": the card is invalid",
    }
}

/// The categories of a dimension.
struct Section<'a> {
    text: &'a mut String,
    colors: Colors,
}

impl<'a> Section<'a> {
    fn new(text: &'a mut String, title: &str, colors: Colors) -> Self {
        heading(text, title, colors);
        Self { text, colors }
    }

    /// A category: its points, and the checks that passed and failed.
    fn row(&mut self, name: &str, points: &dyn fmt::Display, most: u64, checks: &[(bool, &str)]) {
        let marked = checks.iter().map(|(holds, check)| match holds {
            true => format!("{} {check}", self.colors.good("✓")),
            false => format!("{} {check}", self.colors.bad("✗")),
        });
        let marked = marked.collect::<Vec<_>>().join("  ");
        let points = format!("{points}/{most}");
        let _ = writeln!(self.text, "  {name:<NAME$}{points:>9}  {marked}");
    }
}

fn heading(text: &mut String, name: &str, colors: Colors) {
    let _ = writeln!(text, "\n{}", colors.strong(name));
}

fn compliance_points(text: &mut String, compliance: &Compliance, colors: Colors) {
    let Some(compliance::Breakdown {
        core_fields: fields,
        skills_quality: skills,
        format_compliance: format,
        data_quality: data,
    }) = &compliance.breakdown
    else {
        return;
    };
    let mut section = Section::new(text, "compliance", colors);
    let missing: Vec<(bool, &str)> = fields.missing.iter().map(|it| (false, *it)).collect();
    let all = [(true, "all nine present")];
    let checks = match missing.as_slice() {
        [] => &all[..],
        missing => missing,
    };
    section.row("core fields", &fields.score, fields.max_score, checks);
    let checks = [
        (skills.skills_present, "skills"),
        (skills.all_skills_have_required_fields, "complete"),
        (skills.all_skills_have_tags, "tagged"),
    ];
    section.row("skills", &skills.score, skills.max_score, &checks);
    let checks = [
        (format.valid_semver, "version"),
        (format.valid_protocol_version, "protocolVersion"),
        (format.valid_url, "url"),
        (format.valid_transports, "transports"),
        (format.valid_mime_types, "media types"),
    ];
    section.row("format", &format.score, format.max_score, &checks);
    let checks = [
        (data.no_duplicate_skill_ids, "unique skill ids"),
        (data.field_lengths_valid, "lengths"),
        (data.no_ssrf_risks, "no private hosts"),
    ];
    section.row("data quality", &data.score, data.max_score, &checks);
}

fn trust_points(text: &mut String, trust: &Trust, colors: Colors) {
    let Some(trust::Breakdown {
        signatures,
        provider,
        security,
        documentation,
    }) = &trust.breakdown
    else {
        return;
    };
    let (points, confidence) = (trust.raw_score, trust.confidence_multiplier);
    let title = format!("trust: {points} points × {confidence} confidence");
    let mut section = Section::new(text, &title, colors);
    signature_points(&mut section, signatures);
    let reachable = provider.url_reachable.map(|it| (it, "site reachable"));
    let checks: Vec<(bool, &str)> = [
        (provider.has_organization, "organization"),
        (provider.has_url, "https url"),
    ]
    .into_iter()
    .chain(reachable)
    .collect();
    section.row("provider", &provider.score, provider.max_score, &checks);
    let checks = [
        (security.https_only, "https only"),
        (security.has_security_schemes, "security schemes"),
        (security.has_strong_auth, "strong authentication"),
        (!security.has_http_urls, "no plain http (-10)"),
    ];
    section.row("security", &security.score, security.max_score, &checks);
    let checks = [
        (documentation.has_documentation_url, "documentation"),
        (documentation.has_terms_of_service, "terms of service"),
        (documentation.has_privacy_policy, "privacy policy"),
    ];
    section.row(
        "documentation",
        &documentation.score,
        documentation.max_score,
        &checks,
    );
    for result in &trust.signature_results {
        signature(text, result, colors);
    }
}

fn signature_points(section: &mut Section<'_>, signatures: &trust::Signatures) {
    let checks: &[(bool, &str)] = if signatures.tested {
        &[
            (signatures.has_valid_signature, "one valid"),
            (signatures.multiple_signatures, "two keys"),
            (signatures.covers_all_fields, "whole card"),
            (signatures.is_recent, "recent"),
            (!signatures.has_invalid_signature, "none invalid (-15)"),
            (!signatures.has_expired_signature, "none expired (-10)"),
        ]
    } else {
        &[(false, "checked")]
    };
    section.row(
        "signatures",
        &signatures.score,
        signatures.max_score,
        checks,
    );
}

fn signature(text: &mut String, result: &SignatureResult, colors: Colors) {
    let state = match result.state {
        State::Valid => colors.good("valid"),
        State::Expired => colors.doubtful("expired"),
        State::Invalid => colors.bad("invalid"),
        State::Unverifiable => colors.doubtful("unverifiable"),
    };
    let profile = result
        .profile
        .map_or_else(String::new, |it| format!(", over the {} form", code_of(it)));
    let reason = result
        .reason
        .map_or_else(String::new, |it| format!(": {}", code_of(it)));
    let _ = writeln!(
        text,
        "    signature {}  {state}{reason}{profile}",
        result.index
    );
}

fn availability_points(text: &mut String, availability: &Availability, colors: Colors) {
    let Some(availability::Breakdown {
        primary_endpoint: endpoint,
        transport_support: transports,
        response_quality: quality,
    }) = &availability.breakdown
    else {
        return;
    };
    let mut section = Section::new(text, "availability", colors);
    let fast = match endpoint.response_time_ms {
        Some(time) => format!("fast ({time} ms)"),
        None => "fast".to_owned(),
    };
    let is_fast = endpoint
        .response_time_ms
        .is_some_and(|it| it < availability::FAST_BELOW_MS);
    let checks = [
        (endpoint.responds, "responds"),
        (is_fast, &*fast),
        (endpoint.has_cors, "CORS"),
        (endpoint.valid_tls, "TLS"),
    ];
    section.row("endpoint", &endpoint.score, endpoint.max_score, &checks);
    let (working, failed) = (
        transports.additional_interfaces_working,
        transports.additional_interfaces_failed,
    );
    let others = format!("{working} of {} others", working + failed);
    let mut checks = vec![(transports.preferred_transport_works, "preferred")];
    if working + failed > 0 {
        checks.push((failed == 0, &*others));
    }
    section.row(
        "transports",
        &transports.score,
        transports.max_score,
        &checks,
    );
    let checks = [
        (quality.valid_structure, "structure"),
        (quality.proper_content_type, "content type"),
        (quality.proper_error_handling, "errors"),
    ];
    section.row("answers", &quality.score, quality.max_score, &checks);
}

fn findings(text: &mut String, scorecard: &Scorecard, colors: Colors) {
    for (severity, title) in [
        (Severity::Error, "errors"),
        (Severity::Warning, "warnings"),
        (Severity::Info, "notes"),
    ] {
        let found: Vec<&Finding> = scorecard
            .issues
            .iter()
            .filter(|it| it.severity == severity)
            .collect();
        if found.is_empty() {
            continue;
        }
        heading(text, title, colors);
        for finding in found.iter().take(SHOWN) {
            let code = code_of(finding.code);
            let code = match severity {
                Severity::Error => colors.bad(&code),
                Severity::Warning => colors.doubtful(&code),
                Severity::Info => colors.faint(&code),
            };
            let path = if finding.path.is_empty() {
                String::new()
            } else {
                format!(" {}", plain(&finding.path))
            };
            let _ = writeln!(text, "  {code}{path}\n    {}", finding.message);
        }
        if found.len() > SHOWN {
            let _ = writeln!(text, "  … and {} more; see --json", found.len() - SHOWN);
        }
    }
    if scorecard.omitted_issues > 0 {
        let _ = writeln!(
            text,
            "\n{} more findings were not recorded",
            scorecard.omitted_issues
        );
    }
}
