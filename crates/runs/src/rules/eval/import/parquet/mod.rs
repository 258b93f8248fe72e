//! Tables in Parquet files: structs, lists and maps become JSON, times and decimals text.

mod guard;
#[cfg(test)]
mod tests;
mod thrift;
mod values;

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use parquet::basic::{LogicalType, TimeUnit};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use serde_json::{Map, Value};

use self::values::{Texts, json};
use super::draft::{MAX_OCTETS, octets};
use super::rows::{Row, Rows};

/// Maximum number of rows, as of tasks.
const MAX_ROWS: usize = 100_000;
/// Values that the library unpacks at a time, of each column.
const BATCH: usize = 256;

/// Whether the bytes are a Parquet file.
pub fn is_parquet(bytes: &[u8]) -> bool {
    bytes.starts_with(guard::MAGIC)
}

/// Reads the rows of a file.
///
/// # Errors
/// The file is damaged, or exceeds a limit.
pub fn read(bytes: &[u8]) -> Result<Rows, String> {
    guard::check(bytes)?;
    // The library has assertions that a damaged file can violate.
    catch_unwind(AssertUnwindSafe(|| rows(bytes)))
        .unwrap_or_else(|_| Err("it is damaged, or has a type that cannot be read".to_owned()))
}

fn rows(bytes: &[u8]) -> Result<Rows, String> {
    let damaged = |fault: parquet::errors::ParquetError| {
        let text: String = fault.to_string().chars().take(200).collect();
        format!("it cannot be read: {text}")
    };
    let reader = SerializedFileReader::new(Bytes::copy_from_slice(bytes)).map_err(damaged)?;
    let schema = reader.metadata().file_metadata().schema_descr();
    let fields = schema.root_schema().get_fields();
    let columns: Vec<String> = fields.iter().map(|field| field.name().to_owned()).collect();
    let in_nanoseconds: Vec<bool> = fields
        .iter()
        .map(|field| {
            let info = field.get_basic_info();
            matches!(
                info.logical_type_ref(),
                Some(LogicalType::Timestamp(timestamp)) if timestamp.unit == TimeUnit::NANOS
            )
        })
        .collect();
    let mut left = MAX_OCTETS;
    let mut rows = Vec::new();
    let found = RowIter::from_file(None, &reader).map_err(damaged)?;
    for (index, row) in found.with_batch_size(BATCH).enumerate() {
        let row = row.map_err(damaged)?;
        let mut texts = Texts::new(left);
        let mut members = Map::new();
        for ((name, field), nanoseconds) in row.get_column_iter().zip(&in_nanoseconds) {
            let value = json(field, *nanoseconds, &mut texts)?;
            if !value.is_null() {
                members.insert(name.clone(), value);
            }
        }
        let value = Value::Object(members);
        let size = octets(&value);
        if rows.len() >= MAX_ROWS || size > left {
            return Err(format!(
                "it has more than {MAX_ROWS} rows or {} MiB of values; write fewer rows",
                MAX_OCTETS >> 20
            ));
        }
        left -= size;
        rows.push(Row {
            place: format!("row {}", index + 1),
            value,
        });
    }
    Ok(Rows {
        rows,
        columns,
        notation: "Parquet",
    })
}
