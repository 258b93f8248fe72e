//! Normalizes obfuscated text: look-alike letters, invisible characters, spaced-out letters, and
//! common encodings. All work is bounded by the length of the text.

use std::cell::OnceCell;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use regex::Regex;
use serde_json::Value;
use unicode_normalization::UnicodeNormalization as _;

/// Maximum depth of nested encodings.
const MAX_LAYERS: usize = 2;
/// Shorter runs of an encoding's characters are words.
const MIN_ENCODED_CHARS: usize = 12;
/// Shorter decoded pieces are ignored.
const MIN_READABLE_BYTES: usize = 6;
/// Maximum size of decoded text in bytes, in all layers together.
const MAX_DECODED_BYTES: usize = 2 * 1024 * 1024;
/// Texts with fewer letters and digits are only searched for as whole words.
const MIN_SUBSTRING_CHARS: usize = 8;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    NO_PAD.with_decode_allow_trailing_bits(true),
);

/// Compiles a constant expression.
#[expect(
    clippy::expect_used,
    reason = "the expressions are constants, and tests use every one of them"
)]
pub(super) fn expression(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the expression is valid")
}

/// Pairs of hexadecimal digits with the usual separators.
static HEX: LazyLock<Regex> =
    LazyLock::new(|| expression(r"(?i)(?:(?:0x|\\x|\\u00|&#x|%)?[0-9a-f]{2}[\s,:;-]*){6,}"));
static HEX_PREFIX: LazyLock<Regex> = LazyLock::new(|| expression(r"(?i)0x|\\x|\\u00|&#x|%"));

/// A text as it appears on screen: compatibility forms unified, invisible characters removed. Case
/// and spaces stay.
pub fn clear(text: &str) -> String {
    // All ASCII characters count as visible, and have no other form.
    if text.is_ascii() {
        return text.to_owned();
    }
    text.chars().filter_map(visible).nfkc().collect()
}

/// The clear text in one case, with Latin letters in place of look-alikes, and single spaces.
pub fn fold(clear: &str) -> String {
    let mut folded = String::with_capacity(clear.len());
    for c in clear.chars().flat_map(char::to_lowercase).map(latin) {
        if !c.is_whitespace() {
            folded.push(c);
        } else if !folded.is_empty() && !folded.ends_with(' ') {
            folded.push(' ');
        }
    }
    folded.truncate(folded.trim_end().len());
    folded
}

/// Letters and digits only.
pub fn squeeze(folded: &str) -> String {
    folded.chars().filter(|c| c.is_alphanumeric()).collect()
}

/// The visible form of a character: nothing for invisible characters, and a plain character for its
/// copy among the tag characters, which screens do not show but models read.
fn visible(c: char) -> Option<char> {
    match c {
        '\u{e0020}'..='\u{e007e}' => char::from_u32(u32::from(c) - 0xe0000),
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{e0000}'..='\u{e0fff}' => None,
        c => Some(c),
    }
}

/// The Latin letter that a lower-case Cyrillic or Greek letter looks like.
const fn latin(c: char) -> char {
    match c {
        'а' | 'α' => 'a',
        'с' | 'ϲ' => 'c',
        'ԁ' => 'd',
        'е' => 'e',
        'һ' => 'h',
        'і' | 'ι' | 'ı' => 'i',
        'ј' => 'j',
        'κ' => 'k',
        'ӏ' => 'l',
        'о' | 'ο' | 'օ' => 'o',
        'р' | 'ρ' => 'p',
        'ԛ' => 'q',
        'ѕ' => 's',
        'υ' => 'u',
        'ν' | 'ѵ' => 'v',
        'ԝ' => 'w',
        'х' | 'χ' => 'x',
        'у' => 'y',
        c => c,
    }
}

/// One reading of a text.
#[derive(Clone, Debug)]
pub struct Reading {
    /// As it appears on screen.
    pub clear: String,
    folded: OnceCell<String>,
    squeezed: OnceCell<String>,
}

impl Reading {
    const fn of(clear: String) -> Self {
        Self {
            clear,
            folded: OnceCell::new(),
            squeezed: OnceCell::new(),
        }
    }

    /// Normalized by [`fold`].
    pub fn folded(&self) -> &str {
        self.folded.get_or_init(|| fold(&self.clear))
    }

    /// Letters and digits of the normalized text.
    fn squeezed(&self) -> &str {
        self.squeezed.get_or_init(|| squeeze(self.folded()))
    }
}

/// All readings of a text, the plain one first.
#[derive(Clone, Debug)]
pub struct Readings(Vec<Reading>);

impl Readings {
    /// Computes all readings of a text.
    pub fn of(text: &str) -> Self {
        let plain = Reading::of(clear(text));
        let mut all = Vec::new();
        let mut left = MAX_DECODED_BYTES;
        let mut layer = vec![plain.clear.clone()];
        for _ in 0..MAX_LAYERS {
            let mut inner = Vec::new();
            for text in layer.iter().flat_map(|text| decoded(text)) {
                left = left.saturating_sub(text.len());
                if left == 0 {
                    break;
                }
                inner.push(clear(&text));
            }
            all.extend(inner.iter().cloned().map(Reading::of));
            layer = inner;
        }
        all.push(Reading::of(plain.clear.chars().rev().collect()));
        all.push(Reading::of(plain.clear.chars().map(rot13).collect()));
        all.insert(0, plain);
        Self(all)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Reading> {
        self.0.iter()
    }

    /// The text as written.
    pub fn plain(&self) -> Option<&Reading> {
        self.0.first()
    }

    /// Whether any reading contains the needle.
    pub fn contains(&self, needle: &Needle) -> bool {
        self.0.iter().any(|reading| needle.is_in(reading))
    }
}

/// A text to search for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Needle {
    folded: String,
    squeezed: String,
}

impl Needle {
    /// `None` for a text without a letter or digit, which would match everywhere.
    pub fn of(text: &str) -> Option<Self> {
        let folded = fold(&clear(text));
        let squeezed = squeeze(&folded);
        (!squeezed.is_empty()).then_some(Self { folded, squeezed })
    }

    /// Whether a reading contains it.
    pub fn is_in(&self, reading: &Reading) -> bool {
        if self.squeezed.len() >= MIN_SUBSTRING_CHARS {
            reading.squeezed().contains(&self.squeezed)
        } else {
            contains_word(&self.folded, reading.folded())
        }
    }

    pub fn folded(&self) -> &str {
        &self.folded
    }
}

/// Whether a text contains the needle with no letter or digit next to it.
pub fn contains_word(needle: &str, text: &str) -> bool {
    word_occurrences(needle, text).next().is_some()
}

/// Occurrences of the needle with no letter or digit next to it, each as the text before and the
/// text after it.
pub fn word_occurrences<'a>(
    needle: &str,
    text: &'a str,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let inside = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(needle)
        .filter_map(move |(at, found)| Some((text.get(..at)?, text.get(at + found.len()..)?)))
        .filter(move |(before, after)| {
            !inside(before.chars().next_back()) && !inside(after.chars().next())
        })
}

/// Decoded parts of a text.
fn decoded(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut keep = |bytes: &[u8]| found.extend(readable(bytes));
    // Without spaces, so that wrapped text is whole. The start of the encoding is then unknown, so
    // all four offsets are tried.
    let joined: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let is_code = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '-' | '_');
    for run in joined.split(|c| !is_code(c)) {
        if run.len() < MIN_ENCODED_CHARS {
            continue;
        }
        let run = run.replace('-', "+").replace('_', "/");
        for offset in 0..4 {
            let part = run.get(offset..).unwrap_or_default();
            let whole = part.len() - usize::from(part.len() % 4 == 1);
            if let Ok(bytes) = BASE64.decode(part.get(..whole).unwrap_or_default()) {
                keep(&bytes);
            }
        }
    }
    for run in HEX.find_iter(text) {
        let digits = HEX_PREFIX.replace_all(run.as_str(), "");
        let digits: Vec<u8> = digits
            .chars()
            .filter_map(|c| c.to_digit(16))
            .filter_map(|digit| u8::try_from(digit).ok())
            .collect();
        for offset in 0..2 {
            let pairs = digits.get(offset..).unwrap_or_default().chunks_exact(2);
            let bytes: Vec<u8> = pairs
                .filter_map(|pair| Some(pair.first()? << 4 | pair.last()?))
                .collect();
            keep(&bytes);
        }
    }
    found
}

/// The readable text among bytes; `None` without any.
fn readable(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let noise = |c: char| c == '\u{fffd}' || c.is_control() && !c.is_whitespace();
    let pieces: Vec<&str> = text
        .split(noise)
        .filter(|piece| piece.len() >= MIN_READABLE_BYTES)
        .collect();
    (!pieces.is_empty()).then(|| pieces.join(" "))
}

fn rot13(c: char) -> char {
    let by = |c: char, first: u8| {
        let place = (u32::from(c) - u32::from(first) + 13) % 26;
        char::from_u32(u32::from(first) + place).unwrap_or(c)
    };
    match c {
        'a'..='z' => by(c, b'a'),
        'A'..='Z' => by(c, b'A'),
        c => c,
    }
}

/// Visits every string of a document with the name of its member. Member names, numbers and
/// booleans count as strings; null is an empty string.
pub fn each_text(value: &Value, name: &str, visit: &mut impl FnMut(&str, &str)) {
    match value {
        Value::String(text) => visit(name, text),
        Value::Number(number) => visit(name, &number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| each_text(item, name, visit)),
        Value::Object(members) => {
            for (name, member) in members {
                if member.is_object() || member.is_array() {
                    visit("", name);
                }
                each_text(member, name, visit);
            }
        }
        Value::Bool(truth) => visit(name, if *truth { "true" } else { "false" }),
        Value::Null => visit(name, ""),
    }
}

/// A document as one text, one line per string.
pub fn lines(value: &Value) -> String {
    let mut all = String::new();
    each_text(value, "", &mut |name, text| push_line(&mut all, name, text));
    all
}

/// Adds a line with a string and the name of its member, which may be empty.
pub fn push_line(all: &mut String, name: &str, text: &str) {
    if !name.is_empty() {
        all.push_str(name);
        all.push_str(": ");
    }
    all.push_str(text);
    all.push('\n');
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    const TOKEN: &str = "canary-7f3a9c";

    fn says(text: &str) -> bool {
        Readings::of(text).contains(&Needle::of(TOKEN).unwrap())
    }

    fn hex(text: &str, between: &str) -> String {
        let pairs: Vec<String> = text.bytes().map(|octet| format!("{octet:02x}")).collect();
        pairs.join(between)
    }

    #[rstest]
    #[case::plain("the code is canary-7f3a9c.")]
    #[case::upper("CANARY-7F3A9C")]
    #[case::other_dash("canary_7f3a9c, canary 7f3a9c")]
    #[case::spaced("c a n a r y - 7 f 3 a 9 c")]
    #[case::dotted("c.a.n.a.r.y.7.f.3.a.9.c")]
    #[case::a_letter_a_line("c\na\nn\na\nr\ny\n-\n7\nf\n3\na\n9\nc")]
    #[case::zero_width("can\u{200b}ary\u{2060}-7f\u{feff}3a9c")]
    #[case::soft_hyphen("can\u{ad}ary-7f3a9c")]
    #[case::variation("canary\u{fe0f}-7f3a9c")]
    #[case::full_width("ｃａｎａｒｙ－７ｆ３ａ９ｃ")]
    #[case::mathematical("𝐜𝐚𝐧𝐚𝐫𝐲-7f3a9c")]
    #[case::circled("ⓒⓐⓝⓐⓡⓨ-7f3a9c")]
    #[case::cyrillic("саnаrу-7f3а9с")]
    #[case::tags(
        "\u{e0063}\u{e0061}\u{e006e}\u{e0061}\u{e0072}\u{e0079}\u{e002d}\u{e0037}\u{e0066}\u{e0033}\u{e0061}\u{e0039}\u{e0063}"
    )]
    #[case::reversed("c9a3f7-yranac")]
    #[case::rot13("pnanel-7s3n9p")]
    #[case::markdown("**canary**-`7f3a9c`")]
    fn tokens_hidden_by_formatting_are_found(#[case] text: &str) {
        assert!(says(text), "{text}");
    }

    #[rstest]
    #[case::base64(STANDARD.encode(TOKEN))]
    #[case::base64_in_words(format!("Here it is: {} - done", STANDARD.encode(format!("it is {TOKEN}"))))]
    #[case::base64_at_two(format!("xx{}", STANDARD.encode(format!("a {TOKEN} b"))))]
    #[case::base64_wrapped(STANDARD.encode(format!("the code you want is {TOKEN}")).as_bytes().chunks(10)
        .map(|line| String::from_utf8_lossy(line).into_owned()).collect::<Vec<_>>().join("\n"))]
    #[case::base64_url(URL_SAFE_NO_PAD.encode(format!("??>>{TOKEN}")))]
    #[case::base64_twice(STANDARD.encode(STANDARD.encode(format!("code {TOKEN}"))))]
    #[case::hex(hex(TOKEN, ""))]
    #[case::hex_upper(hex(TOKEN, "").to_uppercase())]
    #[case::hex_spaced(hex(TOKEN, " "))]
    #[case::hex_colons(hex(TOKEN, ":"))]
    #[case::percent(format!("%{}", hex(TOKEN, "%")))]
    #[case::escapes(format!("\\x{}", hex(TOKEN, "\\x")))]
    #[case::c_list(format!("0x{}", hex(TOKEN, ", 0x")))]
    #[case::hex_of_base64(hex(&STANDARD.encode(TOKEN), ""))]
    #[case::spaced_base64(STANDARD.encode(TOKEN).chars().map(|c| format!("{c} ")).collect::<String>())]
    fn tokens_hidden_by_encoding_are_found(#[case] text: String) {
        assert!(says(&text), "{text}");
    }

    #[rstest]
    #[case("")]
    #[case("There is a canary in the mine, 7 of them.")]
    #[case("canary-7f3a9d")]
    #[case("a canary; the hash begins with 7f3a")]
    #[case("TG9yZW0gaXBzdW0gZG9sb3Igc2l0IGFtZXQ=")]
    #[case("6c6f72656d20697073756d")]
    fn absent_tokens_are_not_found(#[case] text: &str) {
        assert!(!says(text), "{text}");
    }

    #[rstest]
    #[case::alone("PWNED", true)]
    #[case::in_a_sentence("well: pwned!", true)]
    #[case::inside_a_word("unpwnedness", false)]
    #[case::across_words("up wned", false)]
    fn a_short_word_is_found_as_a_word(#[case] text: &str, #[case] found: bool) {
        assert_eq!(
            Readings::of(text).contains(&Needle::of("pwned").unwrap()),
            found
        );
    }

    #[test]
    fn every_value_of_a_document_becomes_a_line() {
        let document = serde_json::json!({"a": ["x", {"b": 4111}], "password": "y", "n": null});
        assert_eq!(lines(&document), "a\na: x\nb: 4111\nn: \npassword: y\n");
    }

    proptest! {
        #[test]
        fn ascii_text_is_clear(text in "[\\x00-\\x7f]{0,80}") {
            let one_by_one: String = text.chars().filter_map(visible).nfkc().collect();
            prop_assert_eq!(clear(&text), one_by_one);
        }

        #[test]
        fn decoding_arbitrary_text_does_not_panic_and_has_bounded_size(text in "(?s).{0,300}") {
            let readings = Readings::of(&text);
            let all: usize = readings.iter().map(|reading| reading.clear.len()).sum();
            prop_assert!(all <= 64 * text.len() + 64, "{all} of {}", text.len());
        }

        #[test]
        fn a_hidden_token_is_found_in_any_surrounding_text(
            before in "[ -~]{0,60}", after in "[ -~]{0,60}", token in "canary-[0-9a-f]{8}", way in 0..5,
        ) {
            let hidden = match way {
                0 => token.clone(),
                1 => token.chars().rev().collect(),
                2 => token.chars().flat_map(|c| [c, '\u{200b}']).collect(),
                3 => STANDARD.encode(format!("  {token}  ")),
                _ => hex(&token, ""),
            };
            let text = format!("{before}\n{hidden}\n{after}");
            // Characters of the same encoding directly before the token may shift it; the decoded
            // text is then different.
            prop_assume!(way < 3 || !before.ends_with(|c: char| c.is_ascii_hexdigit()) || way == 3);
            prop_assert!(Readings::of(&text).contains(&Needle::of(&token).unwrap()), "{text}");
        }

        #[test]
        fn folding_text_is_idempotent(text in "\\PC{0,80}") {
            let once = fold(&clear(&text));
            let twice = fold(&clear(&once));
            prop_assert_eq!(fold(&clear(&twice)), twice);
        }
    }
}
