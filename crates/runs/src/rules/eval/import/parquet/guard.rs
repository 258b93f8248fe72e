//! Limits of a Parquet file, checked before the library reads it. The library trusts the sizes that
//! a file declares, and a file of a few kilobytes can declare gigabytes.

use std::io::Read as _;

use super::thrift::{self, Struct};

/// Maximum size of all pages, unpacked.
const MAX_UNPACKED_BYTES: u64 = 256 << 20;
/// Maximum number of values of all columns, with the items of lists.
const MAX_VALUES: u64 = 4_000_000;
const MAX_PAGES: usize = 200_000;
const MAX_COLUMNS: usize = 2_000;
/// Maximum depth of nested columns.
const MAX_DEPTH: usize = 16;
/// First and last bytes of a file.
pub const MAGIC: &[u8] = b"PAR1";
/// Bytes after the metadata: its size, and [`MAGIC`].
const END: usize = 8;
/// Values that share their beginning with the one before: a small page of them can unpack to any
/// size.
const DELTA_BYTE_ARRAY: i64 = 7;
const GZIP: i64 = 2;

/// Checks the file.
///
/// # Errors
/// It is not a Parquet file, exceeds a limit, or uses a method that cannot be read.
pub fn check(bytes: &[u8]) -> Result<(), String> {
    let (metadata, data_end) = metadata(bytes)?;
    check_schema(&metadata)?;
    let mut used = Used::default();
    for row_group in metadata.structs(4) {
        for chunk in row_group.structs(1) {
            let column = chunk
                .inner(3)
                .ok_or("a column of it is in another file, or encrypted")?;
            check_column(bytes.get(..data_end).unwrap_or_default(), column, &mut used)?;
        }
    }
    Ok(())
}

/// The metadata, and where the data ends.
fn metadata(bytes: &[u8]) -> Result<(Struct, usize), String> {
    let no_file = || "it is not a complete Parquet file".to_owned();
    let is_whole = bytes.len() > MAGIC.len() + END && bytes.ends_with(MAGIC);
    let end = bytes.len().checked_sub(END).filter(|_| is_whole);
    let end = end.ok_or_else(no_file)?;
    let size = bytes
        .get(end..end + 4)
        .and_then(|size| <[u8; 4]>::try_from(size).ok())
        .and_then(|size| usize::try_from(u32::from_le_bytes(size)).ok());
    let start = size
        .and_then(|size| end.checked_sub(size))
        .filter(|start| *start >= MAGIC.len());
    let start = start.ok_or_else(no_file)?;
    let (metadata, _) = thrift::read(bytes.get(start..end).unwrap_or_default())?;
    Ok((metadata, start))
}

/// Checks the number and depth of columns. The schema is a tree in depth-first order: every element
/// says how many children follow.
fn check_schema(metadata: &Struct) -> Result<(), String> {
    let mut open: Vec<i64> = Vec::new();
    let mut count = 0;
    for element in metadata.structs(2) {
        count += 1;
        if count > MAX_COLUMNS {
            return Err(format!("it has more than {MAX_COLUMNS} columns"));
        }
        while open.last() == Some(&0) {
            open.pop();
        }
        if let Some(left) = open.last_mut() {
            *left -= 1;
        }
        if let Some(children) = element.integer(5).filter(|children| *children > 0) {
            open.push(children);
        }
        if open.len() > MAX_DEPTH {
            return Err(format!(
                "its columns are nested more than {MAX_DEPTH} times"
            ));
        }
    }
    match count {
        0 => Err("it has no schema".to_owned()),
        _ => Ok(()),
    }
}

/// The unpacked size of the pages that were checked.
#[derive(Default)]
struct Used {
    bytes: u64,
    values: u64,
    pages: usize,
}

impl Used {
    fn add(&mut self, bytes: u64, values: u64) -> Result<(), String> {
        self.bytes = self.bytes.saturating_add(bytes);
        self.values = self.values.saturating_add(values);
        self.pages += 1;
        if self.bytes > MAX_UNPACKED_BYTES {
            return Err(format!(
                "its data has more than {} MiB when unpacked",
                MAX_UNPACKED_BYTES >> 20
            ));
        }
        if self.values > MAX_VALUES || self.pages > MAX_PAGES {
            return Err(format!(
                "it has more than {MAX_VALUES} values or {MAX_PAGES} pages"
            ));
        }
        Ok(())
    }
}

/// Checks the pages of a column.
fn check_column(data: &[u8], column: &Struct, used: &mut Used) -> Result<(), String> {
    let codec = column.integer(4).unwrap_or_default();
    if !matches!(codec, 0 | 1 | GZIP | 6 | 7) {
        return Err(format!(
            "it is compressed with {}; use snappy, gzip, zstd or no compression",
            match codec {
                3 => "LZO",
                4 => "Brotli",
                5 => "the old LZ4 method",
                _ => "an unknown method",
            }
        ));
    }
    let position = |id: i16| {
        let value = column.integer(id)?;
        usize::try_from(value).ok()
    };
    let invalid = || "a column of it is outside of the file".to_owned();
    let first = position(9).ok_or_else(invalid)?;
    let dictionary = position(11).filter(|at| *at > 0 && *at < first);
    let start = dictionary.unwrap_or(first);
    let size = position(7).ok_or_else(invalid)?;
    let end = start.checked_add(size).ok_or_else(invalid)?;
    let mut left = data.get(start..end).ok_or_else(invalid)?;
    while !left.is_empty() {
        let (header, header_size) = thrift::read(left)?;
        left = left.get(header_size..).unwrap_or_default();
        let page = Page::of(&header)?;
        let (body, rest) = left
            .split_at_checked(page.packed)
            .ok_or("a page of it is longer than its column")?;
        left = rest;
        used.add(page.unpacked as u64, page.values)?;
        if codec == GZIP {
            let packed = body.get(page.levels..).unwrap_or_default();
            check_gzip(packed, page.unpacked)?;
        }
    }
    Ok(())
}

struct Page {
    packed: usize,
    unpacked: usize,
    values: u64,
    /// Size of what is before the packed data.
    levels: usize,
}

impl Page {
    fn of(header: &Struct) -> Result<Self, String> {
        let size = |id: i16| {
            let size = header.integer(id).and_then(|it| usize::try_from(it).ok());
            size.ok_or("a page of it has no size")
        };
        // Data pages of both versions, and pages of dictionaries.
        let kinds = [(5, 2), (8, 4), (7, 2)];
        let mut values = 0_u64;
        for (kind, encoding) in kinds {
            let Some(kind) = header.inner(kind) else {
                continue;
            };
            if kind.integer(encoding) == Some(DELTA_BYTE_ARRAY) {
                return Err(
                    "a column of it has the encoding DELTA_BYTE_ARRAY; write it with plain or \
                     dictionary encoding"
                        .to_owned(),
                );
            }
            let count = kind.integer(1).and_then(|it| u64::try_from(it).ok());
            let count = count.ok_or("a page of it has an invalid number of values")?;
            values = count.saturating_add(values);
        }
        let of_levels = |id: i16| {
            let size = header.inner(8).and_then(|it| it.integer(id));
            usize::try_from(size.unwrap_or_default()).unwrap_or_default()
        };
        let levels = of_levels(5).saturating_add(of_levels(6));
        Ok(Self {
            packed: size(3)?,
            unpacked: size(2)?,
            values,
            levels,
        })
    }
}

/// Checks that a page does not unpack to more than it declares: the library unpacks all of it.
fn check_gzip(packed: &[u8], declared: usize) -> Result<(), String> {
    let most = declared as u64 + 1;
    let mut unpacked = flate2::read::MultiGzDecoder::new(packed).take(most);
    let size = std::io::copy(&mut unpacked, &mut std::io::sink());
    // Data that cannot be unpacked is reported by the library.
    match size {
        Ok(size) if size >= most => Err("a page of it unpacks to more than it declares".to_owned()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_page_that_unpacks_to_more_than_it_declares_is_refused() {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&[0; 1_000]).unwrap();
        let packed = packed.finish().unwrap();
        assert!(check_gzip(&packed, 1_000).is_ok());
        assert!(check_gzip(&packed, 999).is_err());
        assert!(check_gzip(b"no gzip data", 10).is_ok());
    }

    #[test]
    fn pages_of_a_column_count_together() {
        let mut used = Used::default();
        used.add(200 << 20, 10).unwrap();
        assert!(used.add(100 << 20, 10).unwrap_err().contains("256 MiB"));
        let mut used = Used::default();
        assert!(
            used.add(1, 4_000_001)
                .unwrap_err()
                .contains("4000000 values")
        );
    }

    /// A schema of columns that each contain the next one.
    fn nested(depth: usize) -> Vec<u8> {
        // Field 2: a list of structs, each with the field 5, one child.
        let size = u8::try_from(depth).unwrap();
        let mut bytes = vec![0x29, 0xfc, size];
        for _ in 0..depth {
            bytes.extend([0x55, 0x02, 0x00]);
        }
        bytes.push(0x00);
        bytes
    }

    #[test]
    fn deeply_nested_columns_are_refused() {
        let schema = |depth: usize| check_schema(&thrift::read(&nested(depth)).unwrap().0);
        assert!(schema(MAX_DEPTH).is_ok());
        assert!(
            schema(MAX_DEPTH + 1)
                .unwrap_err()
                .contains("nested more than")
        );
    }
}
