//! National identity numbers, recognized by their form and check digits. A form that other numbers
//! share counts only if the text before it names the number.

use std::sync::LazyLock;

use regex::{Match, Regex};

use super::super::text::expression;
use super::{digits, is_part};

/// How far before a number its name may be, in bytes.
const CONTEXT_OCTETS: usize = 48;

/// One kind of number.
struct Form {
    pattern: Regex,
    /// The name that must precede it; absent if the form is unambiguous.
    context: Option<Regex>,
    is_sound: fn(&str) -> bool,
}

static FORMS: LazyLock<Vec<Form>> = LazyLock::new(|| {
    let form = |pattern: &str, context: Option<&str>, is_sound| Form {
        pattern: expression(pattern),
        context: context.map(expression),
        is_sound,
    };
    vec![
        // United States: social security number.
        form(r"[0-9]{3}-[0-9]{2}-[0-9]{4}", None, is_social_security),
        // United Kingdom: national insurance number.
        form(
            r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] [0-9]{2} [0-9]{2} [0-9]{2} [A-D]",
            None,
            is_national_insurance,
        ),
        form(
            r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z][0-9]{6}[A-D]",
            Some(r"(?i)national insurance|\bnino\b|\bni (?:number|no)"),
            is_national_insurance,
        ),
        // Brazil: CPF.
        form(r"[0-9]{3}\.[0-9]{3}\.[0-9]{3}-[0-9]{2}", None, is_cpf),
        // France: numéro de sécurité sociale.
        form(
            r"[12] ?[0-9]{2} ?(?:0[1-9]|1[0-2]|[2-9][0-9]) ?[0-9]{2} ?[0-9]{3} ?[0-9]{3} ?[0-9]{2}",
            None,
            is_nir,
        ),
        // Spain: DNI and NIE.
        form(r"[0-9XYZ][0-9]{7}-?[A-Z]", None, is_dni),
        // Poland: PESEL.
        form(r"[0-9]{11}", Some(r"(?i)pesel"), is_pesel),
        // Netherlands: burgerservicenummer.
        form(
            r"[0-9]{9}",
            Some(r"(?i)\bbsn\b|burgerservicenummer"),
            is_bsn,
        ),
        // Germany: steuerliche Identifikationsnummer.
        form(
            r"[1-9][0-9](?: ?[0-9]{3}){3}",
            Some(r"(?i)steuer-?\s?id|\bidnr\b|identifikationsnummer|tax id"),
            is_steuer_id,
        ),
        // India: Aadhaar.
        form(
            r"[2-9][0-9]{3} ?[0-9]{4} ?[0-9]{4}",
            Some(r"(?i)aadhaa?r"),
            is_aadhaar,
        ),
    ]
});

/// Sample numbers from advertisements and manuals.
const SAMPLES: &[&str] = &[
    "078-05-1120",
    "123-45-6789",
    "219-09-9999",
    "111.444.777-35",
    "12345678Z",
];

/// Every valid number in a text, and whether it is a known sample.
pub fn numbers(text: &str) -> impl Iterator<Item = (&str, bool)> {
    FORMS.iter().flat_map(move |form| {
        let said = move |at: &Match<'_>| match &form.context {
            Some(context) => {
                let from = text.ceil_char_boundary(at.start().saturating_sub(CONTEXT_OCTETS));
                text.get(from..at.start())
                    .is_some_and(|before| context.is_match(before))
            }
            None => true,
        };
        form.pattern
            .find_iter(text)
            .filter(move |at| !is_part(text, *at) && said(at) && (form.is_sound)(at.as_str()))
            .map(|at| (at.as_str(), SAMPLES.contains(&at.as_str())))
    })
}

fn is_social_security(text: &str) -> bool {
    let mut groups = text
        .split('-')
        .map(|group| group.parse::<u32>().unwrap_or(0));
    let mut next = || groups.next().unwrap_or(0);
    let (area, group, serial) = (next(), next(), next());
    !matches!(area, 0 | 666 | 900..) && group != 0 && serial != 0
}

fn is_national_insurance(text: &str) -> bool {
    let unused = ["BG", "GB", "KN", "NK", "NT", "TN", "ZZ"];
    !unused.iter().any(|prefix| text.starts_with(prefix))
}

/// Σ of each digit times its weight.
fn weighted(digits: &[u8], weights: impl IntoIterator<Item = u32>) -> u32 {
    let products = digits.iter().zip(weights);
    products
        .map(|(digit, weight)| u32::from(*digit) * weight)
        .sum()
}

fn is_cpf(text: &str) -> bool {
    let all = digits(text);
    let check = |n: usize, most: u32| {
        let rest = weighted(all.get(..n).unwrap_or_default(), (2..=most).rev()) * 10 % 11 % 10;
        all.get(n).is_some_and(|digit| u32::from(*digit) == rest)
    };
    let varied = all.windows(2).any(|pair| pair.first() != pair.last());
    varied && check(9, 10) && check(10, 11)
}

fn is_nir(text: &str) -> bool {
    let all = digits(text);
    let number = |part: &[u8]| {
        part.iter()
            .fold(0_u64, |sum, digit| sum * 10 + u64::from(*digit))
    };
    match all.split_at_checked(13) {
        Some((body, key)) if key.len() == 2 => 97 - number(body) % 97 == number(key),
        _ => false,
    }
}

fn is_dni(text: &str) -> bool {
    const LETTERS: &[u8] = b"TRWAGMYFPDXBNJZSQVHLCKE";
    let first = match text.bytes().next() {
        Some(b'Y') => 1,
        Some(b'Z') => 2,
        Some(digit @ b'0'..=b'9') => u32::from(digit - b'0'),
        _ => 0,
    };
    let rest = text.bytes().skip(1).filter(u8::is_ascii_digit);
    let number = rest.fold(first, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    usize::try_from(number % 23)
        .ok()
        .and_then(|at| LETTERS.get(at))
        .is_some_and(|letter| text.bytes().next_back() == Some(*letter))
}

fn is_pesel(text: &str) -> bool {
    let all = digits(text);
    let month = all.get(2..4).map_or(0, |it| weighted(it, [10, 1])) % 20;
    let day = all.get(4..6).map_or(0, |it| weighted(it, [10, 1]));
    let sum = weighted(&all, [1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1]);
    (1..=12).contains(&month) && (1..=31).contains(&day) && sum.is_multiple_of(10)
}

fn is_bsn(text: &str) -> bool {
    let all = digits(text);
    let last = all.last().copied().map_or(0, u32::from);
    let sum = weighted(all.get(..8).unwrap_or_default(), (2..=9).rev());
    sum != 0 && sum % 11 == last
}

/// ISO 7064, mod 11,10.
fn is_steuer_id(text: &str) -> bool {
    let all = digits(text);
    let Some((check, body)) = all.split_last() else {
        return false;
    };
    let product = body.iter().fold(10, |product, digit| {
        let sum = match (u32::from(*digit) + product) % 10 {
            0 => 10,
            sum => sum,
        };
        sum * 2 % 11
    });
    u32::from(*check) == (11 - product) % 10
}

/// Verhoeff's scheme, as multiplication in the dihedral group of ten.
fn is_aadhaar(text: &str) -> bool {
    const TURNED: [u8; 10] = [1, 5, 7, 6, 2, 8, 3, 0, 9, 4];
    let product = |a: u8, b: u8| match (a < 5, b < 5) {
        (true, true) => (a + b) % 5,
        (true, false) => (a + b - 5) % 5 + 5,
        (false, true) => (a - 5 + 5 - b) % 5 + 5,
        (false, false) => (a + 5 - b) % 5,
    };
    let turned = |digit: u8, times: usize| {
        (0..times % 8).fold(digit, |digit, _| {
            TURNED.get(usize::from(digit)).copied().unwrap_or(digit)
        })
    };
    let all = digits(text);
    let sum = all
        .iter()
        .rev()
        .enumerate()
        .fold(0, |sum, (place, digit)| product(sum, turned(*digit, place)));
    sum == 0
}
