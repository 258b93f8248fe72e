use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn kinds(text: &str) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = candidates(text).iter().map(|it| it.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

fn made_up(text: &str) -> bool {
    let all = candidates(text);
    !all.is_empty() && all.iter().all(|it| it.made_up)
}

#[rstest]
#[case("write to jane.doe@acme-mail.com today", Kind::PiiEmail)]
#[case("<mailto:o'hara+x@mail.acme.co.uk>", Kind::PiiEmail)]
#[case("JANE@ACME.IO.", Kind::PiiEmail)]
#[case("call +49 30 901820-34", Kind::PiiPhone)]
#[case("tel:+14155552671", Kind::PiiPhone)]
#[case("+44 (0)20 7946 0958", Kind::PiiPhone)]
#[case("+420 601 123 456", Kind::PiiPhone)]
#[case("at (415) 555-2671.", Kind::PiiPhone)]
#[case("415-555-2671", Kind::PiiPhone)]
#[case("card 4539 1488 0343 6467", Kind::PiiCard)]
#[case("4539148803436467", Kind::PiiCard)]
#[case("4539-1488-0343-6467,", Kind::PiiCard)]
#[case("Amex 3782 822463 10005", Kind::PiiCard)]
#[case("2221000000000009", Kind::PiiCard)]
#[case("pay to DE75 5121 0800 1245 1261 99 please", Kind::PiiIban)]
#[case("iban: fr7630006000011234567890189", Kind::PiiIban)]
#[case("GB33BUKB20201555555555 IS MINE", Kind::PiiIban)]
#[case("SSN 536-90-4399", Kind::PiiNationalId)]
#[case("NI number JG103759A", Kind::PiiNationalId)]
#[case("JG 10 37 59 A", Kind::PiiNationalId)]
#[case("CPF 529.982.247-25", Kind::PiiNationalId)]
#[case("1 84 12 76 451 089 46", Kind::PiiNationalId)]
#[case("DNI 53846712D", Kind::PiiNationalId)]
#[case("NIE X1234567L", Kind::PiiNationalId)]
#[case("PESEL: 44051401359", Kind::PiiNationalId)]
#[case("BSN 111222333", Kind::PiiNationalId)]
#[case("Steuer-ID 86095742719", Kind::PiiNationalId)]
#[case("Aadhaar 2341 2341 2346", Kind::PiiNationalId)]
fn personal_data_is_found(#[case] text: &str, #[case] kind: Kind) {
    assert_eq!(kinds(text), [kind], "{text}");
}

#[rstest]
#[case::nothing("")]
#[case::prose("Your refund of 129.99 EUR for order 2024-11-0042 was sent on 2026-11-21 at 14:30.")]
#[case::function("write to support@acme.com or no-reply@acme.com")]
#[case::remote("git clone git@github.com:acme/triage.git")]
#[case::image("see icon@2x.png and logo@3x.webp")]
#[case::package("npm i react@18.2.0 @types/node@20")]
#[case::decorator("@app.route and a@b")]
#[case::login("https://user@host.acme.com/x")]
#[case::timestamp_ms("1748503543012")]
#[case::timestamp_us("1748503543012123")]
#[case::luhn_fails("4539 1488 0343 6468")]
#[case::no_issuer("9999999999999995")]
#[case::zeros("0000 0000 0000 0000")]
#[case::fraction("0.4539148803436467")]
#[case::exponent("2.4539148803436467E-2")]
#[case::percentage("-0.4539148803436467%")]
#[case::odd_groups("45 39 14 88 03 43 64 67")]
#[case::in_a_hash("a4539148803436467f")]
#[case::in_an_id("order_4539148803436467")]
#[case::longer("453914880343646745391488034364674")]
#[case::uuid("018f3c1e-7b6a-7c3d-9e2f-4539148803436467")]
#[case::iban_fails("DE75 5121 0800 1245 1261 98")]
#[case::iban_of_nowhere("XX75 5121 0800 1245 1261 99")]
#[case::sentence("it is 12 and THIS GOES ON")]
#[case::sku("AB12 CDEF GHIJ KLMN")]
#[case::offset("UTC+2 2024-01-01 10:00")]
#[case::sum("1+23456789012")]
#[case::score("+1234567890")]
#[case::version("212.555.1234.1")]
#[case::ip("192.168.100.200")]
#[case::isbn("978-3-16-148410-0")]
#[case::date_like("2024-11-2100")]
#[case::ssn_of_nobody("000-12-3456 666-12-3456 900-12-3456 123-00-4567")]
#[case::part_of_longer("1-536-90-4399")]
#[case::product("JG103759A")]
#[case::no_letter("53846712A")]
#[case::cpf_fails("529.982.247-26 111.111.111-11")]
#[case::eleven_digits("44051401359")]
#[case::nine_digits("111222333")]
#[case::nir_fails("1 84 12 76 451 089 47")]
fn lookalikes_of_personal_data_are_not_reported(#[case] text: &str) {
    assert_eq!(kinds(text), [], "{text}");
}

#[rstest]
#[case("jane@example.com")]
#[case("jane@mail.acme.test")]
#[case("4111 1111 1111 1111")]
#[case("378282246310005")]
#[case("DE89 3704 0044 0532 0130 00")]
#[case("+1 212 555 0123")]
#[case("123-45-6789")]
fn well_known_sample_data_is_recognized(#[case] text: &str) {
    assert!(made_up(text), "{text}");
}

proptest! {
    #[test]
    fn scanning_arbitrary_text_does_not_panic(text in "(?s).{0,200}") {
        let _ = candidates(&text);
    }

    #[test]
    fn scanning_many_numbers_finds_a_bounded_number_of_candidates(text in "[0-9A-Z+@. -]{0,2000}") {
        prop_assert!(candidates(&text).len() <= 2000);
    }

    #[test]
    fn a_card_number_with_a_wrong_digit_fails_the_checksum(at in 0..16_usize, by in 1..10_u8) {
        let mut number = digits("4539148803436467");
        number[at] = (number[at] + by) % 10;
        prop_assert!(!luhn(&number));
    }
}
