//! Consecutive tasks as bytes: first all ids, then all spans, then all rows, because columns
//! compress better.

use crate::rules::run::fold::row::{read_number, write_number};
use crate::rules::run::fold::table::{CHUNK, StoredTask, TaskTable};

/// The bytes of a chunk; `None` if the facts of a task cannot be packed.
pub(super) fn write(table: &mut TaskTable, chunk: u32) -> Option<Vec<u8>> {
    let (mut count, mut before) = (0, 0);
    let (mut lengths, mut ids) = (Vec::new(), Vec::new());
    let (mut spans, mut row_lengths, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    table.read_chunk(chunk, |task| {
        let StoredTask { id, span, row } = task;
        let (first, last) = span;
        count += 1;
        write_number(id.len() as u64, &mut lengths);
        ids.extend_from_slice(id.as_bytes());
        write_number(step(before, first), &mut spans);
        write_number(u64::from(last - first), &mut spans);
        before = first;
        write_number(row.map_or(0, |row| row.len() as u64 + 1), &mut row_lengths);
        rows.extend_from_slice(row.unwrap_or_default());
    })?;
    let mut bytes = Vec::new();
    write_number(count, &mut bytes);
    for column in [lengths, ids, spans, row_lengths, rows] {
        bytes.extend(column);
    }
    Some(bytes)
}

/// Reads the tasks of a chunk; returns their number. `None` if the bytes are not a chunk, or if
/// `add` refuses one.
pub(super) fn read(
    mut bytes: &[u8],
    mut add: impl FnMut(StoredTask<'_>) -> Option<()>,
) -> Option<u32> {
    let bytes = &mut bytes;
    let count = u32::try_from(read_number(bytes)?).ok()?;
    (count <= CHUNK).then_some(())?;
    let lengths = numbers(count, bytes)?;
    let all_ids: u64 = lengths
        .iter()
        .try_fold(0_u64, |sum, length| sum.checked_add(*length))?;
    let mut ids = take(all_ids, bytes)?;
    let mut before = 0;
    let mut spans = Vec::new();
    for _ in 0..count {
        let first = stepped(before, read_number(bytes)?)?;
        let last = first.checked_add(u32::try_from(read_number(bytes)?).ok()?)?;
        spans.push((first, last));
        before = first;
    }
    let row_lengths = numbers(count, bytes)?;
    for ((length, span), row_length) in lengths.into_iter().zip(spans).zip(row_lengths) {
        let id = std::str::from_utf8(take(length, &mut ids)?).ok()?;
        let row = match row_length.checked_sub(1) {
            Some(length) => Some(take(length, bytes)?),
            None => None,
        };
        add(StoredTask { id, span, row })?;
    }
    bytes.is_empty().then_some(count)
}

fn numbers(count: u32, bytes: &mut &[u8]) -> Option<Vec<u64>> {
    (0..count).map(|_| read_number(bytes)).collect()
}

fn take<'a>(length: u64, bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    *bytes = rest;
    Some(taken)
}

/// The difference of two sequences. The lowest bit says whether it is negative.
fn step(before: u32, after: u32) -> u64 {
    u64::from(before.abs_diff(after)) << 1 | u64::from(after < before)
}

fn stepped(before: u32, step: u64) -> Option<u32> {
    let difference = u32::try_from(step >> 1).ok()?;
    match step & 1 {
        0 => before.checked_add(difference),
        _ => before.checked_sub(difference),
    }
}
