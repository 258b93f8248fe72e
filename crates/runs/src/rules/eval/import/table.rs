//! Comma-separated values (RFC 4180) with a header line.

use serde_json::Value;

use super::draft::Draft;

/// Rows and their column names.
#[derive(Debug)]
pub struct Table {
    names: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// Parses a table.
///
/// # Errors
/// The problem and its position.
pub fn read(bytes: &[u8]) -> Result<Table, String> {
    // Spreadsheets write a byte order mark first.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut reader = csv::Reader::from_reader(bytes);
    let names: Vec<String> = reader
        .headers()
        .map_err(|fault| fault.to_string())?
        .iter()
        .map(|name| name.trim().to_owned())
        .collect();
    for (index, name) in names.iter().enumerate() {
        if names.iter().take(index).any(|other| other == name) {
            return Err(format!("it has two columns named {name:?}"));
        }
    }
    let rows = reader
        .records()
        .map(|row| row.map(|row| row.iter().map(str::to_owned).collect()))
        .collect::<Result<_, csv::Error>>()
        .map_err(|fault| fault.to_string())?;
    Ok(Table { names, rows })
}

impl Table {
    /// Whether there is a column of this name.
    pub fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// The rows as objects of strings. Empty cells are omitted.
    pub fn objects(self) -> Vec<Value> {
        let names = &self.names;
        let object = |row: Vec<String>| {
            let cells = names.iter().cloned().zip(row);
            let filled = cells.filter(|(_, text)| !text.is_empty());
            Value::Object(
                filled
                    .map(|(name, text)| (name, Value::String(text)))
                    .collect(),
            )
        };
        self.rows.into_iter().map(object).collect()
    }
}

/// Rows with `input`, `expected` and optionally `id`.
pub fn convert(table: Table, draft: &mut Draft) {
    for (index, row) in table.objects().into_iter().enumerate() {
        // The header is the first line.
        let place = format!("row {}", index + 2);
        let Value::Object(mut row) = row else {
            continue;
        };
        let (input, expected) = (row.remove("input"), row.remove("expected"));
        let id = row.remove("id");
        draft.report_unknown(&place, "a row", &row);
        match (input, expected) {
            (Some(input), Some(expected)) => {
                let expected = draft.golden(structured(expected));
                draft.add(&place, id.as_ref(), structured(input), expected);
            }
            (None, _) => draft.skip(&place, "a row without `input`"),
            (_, None) => draft.skip(&place, "a row without `expected`"),
        }
    }
}

/// A cell with a JSON object or array is parsed; any other cell is a string, even if it looks like
/// a number.
fn structured(cell: Value) -> Value {
    let parsed = cell
        .as_str()
        .and_then(|text| touchstone_kit::json::parse(text.as_bytes()).ok());
    match parsed {
        Some(parsed @ (Value::Object(_) | Value::Array(_))) => parsed,
        _ => cell,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    #[test]
    fn csv_quotes_line_breaks_and_byte_order_marks_are_parsed() {
        let table = read(b"\xef\xbb\xbfinput, expected\n\"a, \"\"b\"\"\nc\",d\n").unwrap();
        let row: Map<String, Value> = [("input", "a, \"b\"\nc"), ("expected", "d")]
            .into_iter()
            .map(|(name, text)| (name.to_owned(), Value::from(text)))
            .collect();
        assert_eq!(table.objects(), [Value::Object(row)]);
    }

    #[test]
    fn rows_of_another_length_and_duplicate_columns_are_rejected() {
        assert!(read(b"input,expected\na\n").is_err());
        assert!(read(b"input,input\na,b\n").is_err());
    }
}
