//! An untrusted pack archive: rejected or read, within every bound, and read the same way when
//! packed again.
//!
//! Input: one byte that says whether the rest is a complete archive (even) or a tar stream to be
//! compressed first (odd), which spares the fuzzer from guessing checksums.

#![no_main]

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use libfuzzer_sys::{Corpus, fuzz_target};
use touchstone::kinds::PACK_FORMAT;
use touchstone_packs::rules::archive;
use touchstone_packs::rules::archive::{MAX_ENTRIES, MAX_ENTRY, MAX_NAME, MAX_UNPACKED};
use touchstone_packs::rules::build;
use touchstone_packs::rules::contents;

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some((form, rest)) = data.split_first() else {
        return Corpus::Reject;
    };
    let tgz = if form % 2 == 0 {
        rest.to_vec()
    } else {
        compressed(rest)
    };
    let Ok(read) = archive::read(&tgz) else {
        return Corpus::Keep;
    };
    let bytes: usize = read.files.values().map(|file| file.len()).sum();
    assert!(bytes as u64 <= MAX_UNPACKED && read.files.len() <= MAX_ENTRIES);
    for (name, file) in &read.files {
        assert!(file.len() as u64 <= MAX_ENTRY && name.len() <= MAX_NAME);
        assert!(
            !name.starts_with('/') && !name.contains('\\') && !name.contains('\0'),
            "{name:?}"
        );
        assert!(
            name.split('/').all(|part| !matches!(part, "" | "." | "..")),
            "{name:?}"
        );
    }
    let files = read
        .files
        .iter()
        .map(|(name, file)| (name.clone(), file.to_vec()))
        .collect();
    // Content that plain headers cannot express need not be buildable; a pack that is built must
    // read as the same files.
    if let Ok(again) = build::build(&files) {
        assert_eq!(archive::read(&again).expect("our own archive"), read);
        assert_eq!(
            build::build(&files).expect("built a moment ago"),
            again,
            "not deterministic"
        );
    }
    // Inspecting any content must not panic.
    let _ = contents::inspect(read, PACK_FORMAT);
    Corpus::Keep
});

fn compressed(tar: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(tar).expect("memory");
    encoder.finish().expect("memory")
}
