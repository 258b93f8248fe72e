//! Comma-separated values (RFC 4180) with a header line.

use serde_json::Value;

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
        .map_err(|fault| reason(&fault))?
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
        .map_err(|fault| reason(&fault))?;
    Ok(Table { names, rows })
}

fn reason(fault: &csv::Error) -> String {
    let line = fault.position().map_or(1, csv::Position::line);
    match fault.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => format!("line {line} has {len} cells, but the header has {expected_len}"),
        csv::ErrorKind::Utf8 { .. } => format!("line {line} is not UTF-8"),
        _ => format!("line {line}: {fault}"),
    }
}

impl Table {
    pub fn names(&self) -> &[String] {
        &self.names
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

/// A cell with a JSON object or array is parsed; any other cell is a string, even if it looks like
/// a number.
pub fn structured(cell: Value) -> Value {
    let looks_structured = cell
        .as_str()
        .is_some_and(|text| text.trim_start().starts_with(['{', '[']));
    if !looks_structured {
        return cell;
    }
    let parsed = cell
        .as_str()
        .and_then(|text| touchstone_kit::json::parse(text.trim().as_bytes()).ok());
    parsed.unwrap_or(cell)
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
    fn a_row_of_another_length_is_rejected_with_its_line() {
        let fault = read(b"input,expected\n\"a\nb\",c\na\n").unwrap_err();
        assert_eq!(fault, "line 4 has 1 cells, but the header has 2");
    }

    #[test]
    fn duplicate_columns_are_rejected() {
        assert!(read(b"input,input\na,b\n").is_err());
    }
}
