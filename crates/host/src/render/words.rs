//! Wording of values, shared by all views.

use std::borrow::Cow;
use std::fmt::Write as _;

use touchstone_kit::money::NanoUsd;

/// An amount in USD, with decimals by its size.
pub fn usd(amount: NanoUsd) -> String {
    match amount.0 {
        0 => "$0".to_owned(),
        1..500 => "<$0.000001".to_owned(),
        500..10_000_000 => format!("${:.6}", amount.usd()),
        10_000_000..1_000_000_000 => format!("${:.4}", amount.usd()),
        _ => format!("${:.2}", amount.usd()),
    }
}

/// A cost that is unknown, because no price is.
pub const UNKNOWN_COST: &str = "unknown";

/// An amount in USD, or that it is unknown.
pub fn usd_or_unknown(amount: Option<NanoUsd>) -> String {
    amount.map_or_else(|| UNKNOWN_COST.to_owned(), usd)
}

pub fn duration(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        _ => format!("{} min {:02} s", ms / 60_000, ms % 60_000 / 1000),
    }
}

/// A size in bytes, with its unit.
pub fn bytes(value: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut amount = value as f64;
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or_default();
    match unit {
        0 => format!("{value} {name}"),
        _ => format!("{amount:.1} {name}"),
    }
}

/// Makes untrusted text safe for one line of a terminal: no line breaks, control characters or
/// changes of text direction.
pub fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if acts(c) { ' ' } else { c })
        .collect()
}

/// Whether a character controls a terminal or changes the text direction.
fn acts(c: char) -> bool {
    c.is_control() || LINE_ENDS.contains(&c) || TURNS.contains(&c)
}

/// Makes multi-line text safe for a terminal: keeps tabs and, with `coloured`, colours; replaces
/// other control characters by spaces. Applied to all output.
pub fn harmless(text: &str, coloured: bool) -> Cow<'_, str> {
    let acts = |c: char| acts(c) && !matches!(c, '\n' | '\t');
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = match colour(rest) {
            Some(length) if coloured => length,
            _ => c.len_utf8(),
        };
        let (part, after) = rest.split_at(length);
        if length == c.len_utf8() && acts(c) {
            shown.push(' ');
        } else {
            shown.push_str(part);
        }
        rest = after;
    }
    Cow::Owned(shown)
}

/// Length in bytes of the colour or style sequence at the start of the text. A sequence that hides
/// text does not count.
fn colour(text: &str) -> Option<usize> {
    const LONGEST: usize = 16;
    const HIDDEN: &str = "8";
    let parameters = text.strip_prefix("\u{1b}[")?;
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    let (parameters, after) = parameters.split_at(end);
    let hides = parameters.split(';').any(|it| it == HIDDEN);
    (after.starts_with('m') && end <= LONGEST && !hides).then_some(end + 3)
}

/// The same JSON document without characters that control a terminal.
pub fn harmless_json(json: &str) -> Cow<'_, str> {
    // JSON itself escapes most control characters in strings; outside strings there are only line
    // ends.
    let acts = |c: char| acts(c) && c != '\n';
    if !json.contains(acts) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        match acts(c) {
            true => {
                let _ = write!(shown, "\\u{:04x}", u32::from(c));
            }
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Line ends that Unicode does not classify as control characters.
const LINE_ENDS: [char; 2] = ['\u{2028}', '\u{2029}'];

/// Characters that change the text direction.
const TURNS: [char; 12] = [
    '\u{061c}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}',
    '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}',
];

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0.0, "$0")]
    #[case(12.0, "$12.00")]
    #[case(0.5, "$0.5000")]
    #[case(0.001_25, "$0.001250")]
    #[case(0.000_000_6, "$0.000001")]
    #[case(0.000_000_001, "<$0.000001")]
    fn costs_are_printed_with_suitable_precision(#[case] amount: f64, #[case] shown: &str) {
        assert_eq!(usd(NanoUsd::from_usd(amount).unwrap()), shown);
    }

    #[rstest]
    #[case::colour("a\u{1b}[31mred", "a [31mred")]
    #[case::title("\u{1b}]0;mine\u{7}x", " ]0;mine x")]
    #[case::eight_bit("\u{9b}2Jx", " 2Jx")]
    #[case::lines("a\r\nb\u{85}c\u{2028}d\te\u{7f}", "a  b c d e ")]
    #[case::turned_round("\u{202e}ssap\u{202c}", " ssap ")]
    #[case::kept("prüfen – 検査 👩‍🚀 ✓", "prüfen – 検査 👩‍🚀 ✓")]
    fn control_characters_are_removed_from_untrusted_text(#[case] text: &str, #[case] shown: &str) {
        assert_eq!(plain(text), shown);
    }

    #[test]
    fn output_keeps_line_breaks_and_colours_but_no_other_control_sequences() {
        let text = "\u{1b}[32mgood\u{1b}[0m\ta\n\u{202e}b\u{1b}[2J\u{1b}[8mc\r\u{9b}d";
        assert_eq!(
            harmless(text, true),
            "\u{1b}[32mgood\u{1b}[0m\ta\n b [2J [8mc  d"
        );
        assert_eq!(harmless(text, false), " [32mgood [0m\ta\n b [2J [8mc  d");
        assert!(matches!(harmless("a\n\tb", false), Cow::Borrowed(_)));
        for unfinished in ["\u{1b}", "\u{1b}[", "\u{1b}[3", "\u{1b}[;;m"] {
            harmless(unfinished, true);
        }
    }

    #[test]
    fn control_characters_in_json_are_escaped() {
        let document = serde_json::json!({"a": "x\u{202e}y\u{1b}\u{7f}\u{9b}\u{2028}"});
        let text = serde_json::to_string_pretty(&document).unwrap();
        let shown = harmless_json(&text);
        assert!(shown.chars().all(|c| c == '\n' || !acts(c)), "{shown}");
        let read: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(read, document);
    }

    #[rstest]
    #[case(0, "0 ms")]
    #[case(999, "999 ms")]
    #[case(1999, "1.9 s")]
    #[case(61_000, "1 min 01 s")]
    fn durations_are_printed_in_suitable_units(#[case] ms: u64, #[case] shown: &str) {
        assert_eq!(duration(ms), shown);
    }

    #[rstest]
    #[case(0, "0 B")]
    #[case(1023, "1023 B")]
    #[case(1536, "1.5 KiB")]
    #[case(20 << 30, "20.0 GiB")]
    #[case(u64::MAX, "16777216.0 TiB")]
    fn sizes_have_units(#[case] value: u64, #[case] expected: &str) {
        assert_eq!(bytes(value), expected);
    }
}
