//! JSON in the form of Python's `json.dumps` with sorted keys, no spaces and ASCII only.

use std::io::{self, Write};

use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

/// Serializes a value. Members are sorted by code point, as in Python.
pub fn to_vec(value: &Value) -> serde_json::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, Ascii))?;
    Ok(bytes)
}

struct Ascii;

impl Formatter for Ascii {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut units = [0; 2];
        for c in fragment.chars() {
            // The delete character is ASCII, but is escaped too.
            if matches!(c, ' '..='~') {
                write!(writer, "{c}")?;
                continue;
            }
            for unit in c.encode_utf16(&mut units) {
                write!(writer, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }

    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(repr(value).as_bytes())
    }
}

/// A finite double in the form of Python's `repr`: the shortest digits that parse to the same
/// value, with an exponent of at least two digits below 1e-4 and from 1e16.
fn repr(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific
        .split_once('e')
        .unwrap_or((scientific.as_str(), "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..16).contains(&exponent) {
        // `{:?}` keeps `.0`, but switches to exponents at other values.
        let plain = format!("{value}");
        return if plain.contains('.') {
            plain
        } else {
            format!("{plain}.0")
        };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    // From Python: json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")).
    #[rstest]
    #[case("1.0", "1.0")]
    #[case("-0.0", "-0.0")]
    #[case("4.50", "4.5")]
    #[case("0.1", "0.1")]
    #[case("0.0001", "0.0001")]
    #[case("0.00001", "1e-05")]
    #[case("1.5e-7", "1.5e-07")]
    #[case("1e15", "1000000000000000.0")]
    #[case("1e16", "1e+16")]
    #[case("1e21", "1e+21")]
    #[case("1.25e100", "1.25e+100")]
    #[case("123456789012345.6", "123456789012345.6")]
    #[case("5e-324", "5e-324")]
    #[case("7", "7")]
    #[case("-7", "-7")]
    #[case("18446744073709551615", "18446744073709551615")]
    #[case("\"B\u{fc}ro \u{1f4d2}\"", "\"B\\u00fcro \\ud83d\\udcd2\"")]
    #[case(r#""\u0001\b\n\"\\/\u007f""#, "\"\\u0001\\b\\n\\\"\\\\/\\u007f\"")]
    #[case(
        "{\"b\":1,\"a\":[],\"\u{e4}\":{}}",
        "{\"a\":[],\"b\":1,\"\\u00e4\":{}}"
    )]
    fn canonical_json_matches_the_output_of_python(#[case] json: &str, #[case] python: &str) {
        let value: Value = serde_json::from_str(json).unwrap();
        assert_eq!(String::from_utf8(to_vec(&value).unwrap()).unwrap(), python);
    }
}
