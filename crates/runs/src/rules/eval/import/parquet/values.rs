//! Values of a Parquet file as JSON.

use jiff::civil::Date;
use jiff::{Span, Timestamp};
use parquet::data_type::Decimal;
use parquet::record::Field;
use serde_json::{Map, Value, json};

/// Maximum number of decimal places that are written.
const MAX_SCALE: i32 = 64;

/// The size that texts of a row may still have.
pub struct Texts {
    left: usize,
}

impl Texts {
    pub const fn new(left: usize) -> Self {
        Self { left }
    }

    fn take(&mut self, size: usize) -> Result<(), String> {
        self.left = self
            .left
            .checked_sub(size)
            .ok_or("a row of it is too large")?;
        Ok(())
    }
}

/// Converts a value. `in_nanoseconds` says that an integer is a time.
///
/// # Errors
/// The row is too large.
pub fn json(field: &Field, in_nanoseconds: bool, texts: &mut Texts) -> Result<Value, String> {
    texts.take(16)?;
    Ok(match field {
        Field::Null => Value::Null,
        Field::Bool(value) => json!(value),
        Field::Byte(value) => json!(value),
        Field::Short(value) => json!(value),
        Field::Int(value) => json!(value),
        Field::Long(value) if in_nanoseconds => {
            time(Timestamp::from_nanosecond(i128::from(*value)), *value)
        }
        Field::Long(value) => json!(value),
        Field::UByte(value) => json!(value),
        Field::UShort(value) => json!(value),
        Field::UInt(value) => json!(value),
        Field::ULong(value) => json!(value),
        Field::Float16(value) => json!(value.to_f64()),
        // Through its text, so that 0.1 does not become 0.10000000149.
        Field::Float(value) => json!(value.to_string().parse::<f64>().ok()),
        Field::Double(value) => json!(value),
        Field::Decimal(value) => decimal(value),
        Field::Str(text) => {
            texts.take(text.len())?;
            json!(text)
        }
        Field::Bytes(bytes) => {
            texts.take(bytes.len())?;
            match std::str::from_utf8(bytes.data()) {
                Ok(text) => json!(text),
                Err(_) => json!(format!("({} bytes)", bytes.len())),
            }
        }
        Field::Date(days) => date(*days),
        Field::TimeMillis(value) => time_of_day(i64::from(*value), 1_000),
        Field::TimeMicros(value) => time_of_day(*value, 1_000_000),
        Field::TimestampMillis(value) => time(Timestamp::from_millisecond(*value), *value),
        Field::TimestampMicros(value) => time(Timestamp::from_microsecond(*value), *value),
        Field::Group(row) => {
            let mut members = Map::new();
            for (name, field) in row.get_column_iter() {
                texts.take(name.len())?;
                members.insert(name.clone(), json(field, false, texts)?);
            }
            Value::Object(members)
        }
        Field::ListInternal(list) => {
            let items = list.elements().iter();
            let items: Result<Vec<Value>, String> =
                items.map(|item| json(item, false, texts)).collect();
            Value::Array(items?)
        }
        Field::MapInternal(map) => {
            let mut members = Map::new();
            for (key, value) in map.entries() {
                let key = match json(key, false, texts)? {
                    Value::String(text) => text,
                    other => other.to_string(),
                };
                members.insert(key, json(value, false, texts)?);
            }
            Value::Object(members)
        }
    })
}

/// A time as text; the number if it is out of range.
fn time(found: Result<Timestamp, jiff::Error>, number: i64) -> Value {
    found.map_or_else(|_| json!(number), |at| json!(at.to_string()))
}

fn date(days: i32) -> Value {
    let epoch = Date::constant(1970, 1, 1);
    let found = Span::new()
        .try_days(days)
        .and_then(|days| epoch.checked_add(days));
    found.map_or_else(|_| json!(days), |date| json!(date.to_string()))
}

/// A time since midnight.
fn time_of_day(value: i64, per_second: i64) -> Value {
    let (seconds, part) = (value.div_euclid(per_second), value.rem_euclid(per_second));
    if !(0..86_400).contains(&seconds) {
        return json!(value);
    }
    let clock = format!(
        "{:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    );
    json!(match part {
        0 => clock,
        part => {
            let places = if per_second == 1_000 { 3 } else { 6 };
            let part = format!("{part:0places$}");
            format!("{clock}.{}", part.trim_end_matches('0'))
        }
    })
}

/// A decimal as text, so that no digit is lost; `null` if it has more than 38 digits.
fn decimal(of: &Decimal) -> Value {
    let bytes = of.data();
    let scale = of.scale();
    if bytes.is_empty() || bytes.len() > 16 || !(0..=MAX_SCALE).contains(&scale) {
        return Value::Null;
    }
    let is_negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
    let start = if is_negative { -1_i128 } else { 0 };
    let number = bytes
        .iter()
        .fold(start, |number, byte| (number << 8) | i128::from(*byte));
    let scale = usize::try_from(scale).unwrap_or_default();
    let digits = format!("{:0width$}", number.unsigned_abs(), width = scale + 1);
    let (whole, part) = digits.split_at(digits.len() - scale);
    let sign = if number < 0 { "-" } else { "" };
    json!(match part {
        "" => format!("{sign}{whole}"),
        part => format!("{sign}{whole}.{part}"),
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn of(field: &Field) -> Value {
        json(field, false, &mut Texts::new(1 << 20)).unwrap()
    }

    #[rstest]
    #[case(1_234, 2, "12.34")]
    #[case(-5, 3, "-0.005")]
    #[case(7, 0, "7")]
    #[case(0, 2, "0.00")]
    #[case(i32::MIN, 9, "-2.147483648")]
    fn decimals_keep_every_digit(#[case] value: i32, #[case] scale: i32, #[case] text: &str) {
        let field = Field::Decimal(Decimal::from_i32(value, 10, scale));
        assert_eq!(of(&field), json!(text));
    }

    #[rstest]
    #[case(Field::Date(20_000), json!("2024-10-04"))]
    #[case(Field::Date(i32::MAX), json!(i32::MAX))]
    #[case(Field::TimestampMillis(0), json!("1970-01-01T00:00:00Z"))]
    #[case(Field::TimestampMicros(i64::MAX), json!(i64::MAX))]
    #[case(Field::TimeMillis(3_661_500), json!("01:01:01.5"))]
    #[case(Field::TimeMicros(-1), json!(-1))]
    #[case(Field::Float(0.1), json!(0.1))]
    #[case(Field::Double(f64::NAN), Value::Null)]
    fn times_are_text_and_what_is_out_of_range_stays_a_number(
        #[case] field: Field,
        #[case] expected: Value,
    ) {
        assert_eq!(of(&field), expected);
    }

    #[test]
    fn a_row_has_a_limit() {
        let field = Field::Str("x".repeat(100));
        assert!(json(&field, false, &mut Texts::new(100)).is_err());
    }
}
