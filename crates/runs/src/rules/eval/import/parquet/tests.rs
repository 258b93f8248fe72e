use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

// Written by pyarrow 21.
const SNAPPY: &[u8] = include_bytes!("testdata/snappy.parquet");
const GZIP: &[u8] = include_bytes!("testdata/gzip.parquet");
const ZSTD: &[u8] = include_bytes!("testdata/zstd.parquet");
const LZ4: &[u8] = include_bytes!("testdata/lz4.parquet");
const NONE: &[u8] = include_bytes!("testdata/none.parquet");
const VERSION_2: &[u8] = include_bytes!("testdata/v2.parquet");
const BROTLI: &[u8] = include_bytes!("testdata/brotli.parquet");
const DELTA: &[u8] = include_bytes!("testdata/delta.parquet");
/// 300 MiB of equal letters in 15 KiB.
const BOMB: &[u8] = include_bytes!("testdata/bomb.parquet");

#[rstest]
#[case(SNAPPY)]
#[case(GZIP)]
#[case(ZSTD)]
#[case(LZ4)]
#[case(NONE)]
fn values_of_all_kinds_become_json(#[case] file: &[u8]) {
    let found = read(file).unwrap();
    assert_eq!(found.notation, "Parquet");
    assert_eq!(found.columns.len(), 14);
    assert_eq!(
        found.rows[0],
        Row {
            place: "row 1".to_owned(),
            value: json!({
                "id": "a", "question": "one?", "answer": "1", "choices": ["x", "y"],
                "meta": {"n": 1, "tags": [{"k": "v"}]}, "scores": {"p": 0.5},
                "at_us": "2026-01-02T03:04:05.6Z", "at_ns": "2026-01-02T03:04:05Z",
                "day": "2026-01-02", "price": "12.340", "flag": true, "raw": "(2 bytes)",
                "big": 1_099_511_627_776_i64, "f": 0.1,
            }),
        }
    );
    let second = &found.rows[1].value;
    assert_eq!(
        (&second["choices"], &second["scores"]),
        (&json!([]), &json!({}))
    );
    assert_eq!(second["meta"], json!({"n": null, "tags": null}));
    let third = found.rows[2].value.as_object().unwrap();
    for absent in ["question", "choices", "meta", "flag", "raw", "f"] {
        assert!(!third.contains_key(absent), "{absent}");
    }
}

#[test]
fn pages_of_version_2_in_several_groups_are_read() {
    let found = read(VERSION_2).unwrap();
    let ids: Vec<&Value> = found.rows.iter().map(|row| &row.value["id"]).collect();
    assert_eq!(ids, ["a", "b", "c"]);
}

#[rstest]
#[case(BROTLI, "compressed with Brotli")]
#[case(DELTA, "DELTA_BYTE_ARRAY")]
#[case(BOMB, "more than 256 MiB")]
#[case(b"PAR1", "not a complete Parquet file")]
#[case(b"PAR1\xff\xff\xff\xffPAR1", "not a complete Parquet file")]
#[case(b"PAR1\x00\x01\x00\x00\x00PAR1", "no schema")]
fn a_file_that_cannot_be_read_is_refused(#[case] file: &[u8], #[case] part: &str) {
    let fault = read(file).unwrap_err();
    assert!(fault.contains(part), "{fault}");
}

#[test]
fn a_truncated_file_is_refused() {
    for end in (4..SNAPPY.len()).step_by(7) {
        assert!(read(&SNAPPY[..end]).is_err());
    }
}

proptest! {
    /// Damaged bytes give an error or other rows.
    #[test]
    fn a_damaged_file_does_not_panic(
        which in 0_usize..6,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let files = [SNAPPY, GZIP, ZSTD, LZ4, NONE, VERSION_2];
        let mut file = files[which].to_vec();
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        let _ = read(&file);
    }
}
