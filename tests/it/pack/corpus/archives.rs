//! gzip, tar and file names.

use touchstone_kit::error::ErrorCode::{
    TarballEntryTooLarge, TarballGunzipFailed, TarballManifestMissing, TarballManifestTooLarge,
    TarballPathTraversal, TarballTarParseFailed, TarballTooLarge,
};

use super::forge::{END, Entry, Forge, PROMPT, gzip, tar};
use super::{Case, loads, refused};

fn long(suffix: &str) -> String {
    format!("schemas/{}{suffix}", "deep-".repeat(25))
}

fn bend_tgz(forge: &mut Forge, bend: impl FnOnce(Vec<u8>) -> Vec<u8> + 'static) {
    forge.tgz = Some(Box::new(bend));
}

fn bend_tar(forge: &mut Forge, bend: impl FnOnce(Vec<u8>) -> Vec<u8> + 'static) {
    forge.tar = Some(Box::new(bend));
}

pub fn cases() -> Vec<Case> {
    let mut all = gzip_cases();
    all.extend(size_cases());
    all.extend(name_cases());
    all.extend(type_cases());
    all.extend(duplicate_cases());
    all.extend(extended_cases());
    all.extend(header_cases());
    all
}

fn gzip_cases() -> Vec<Case> {
    vec![
        loads("gzip-header-fields", |f| {
            bend_tgz(f, |tgz| {
                let header = b"\x1f\x8b\x08\x1c\x01\x02\x03\x04\x00\xff\x04\x00abcdname\0comment\0";
                [&header[..], &tgz[10..]].concat()
            });
        }),
        refused("gzip-header-checksum", TarballGunzipFailed, |f| {
            bend_tgz(f, |tgz| {
                [b"\x1f\x8b\x08\x02\0\0\0\0\x00\xff\x00\x00", &tgz[10..]].concat()
            });
        }),
        refused("gzip-reserved-flag", TarballGunzipFailed, |f| {
            bend_tgz(f, |mut tgz| {
                tgz[3] |= 0x20;
                tgz
            });
        }),
        refused("gzip-cut-in-the-data", TarballGunzipFailed, |f| {
            bend_tgz(f, |tgz| tgz[..tgz.len() / 2].to_vec())
        }),
        refused("gzip-cut-trailer", TarballGunzipFailed, |f| {
            bend_tgz(f, |tgz| tgz[..tgz.len() - 8].to_vec())
        }),
        refused("gzip-cut-last-octet", TarballGunzipFailed, |f| {
            bend_tgz(f, |tgz| tgz[..tgz.len() - 1].to_vec())
        }),
        refused("gzip-wrong-checksum", TarballGunzipFailed, |f| {
            bend_tgz(f, |mut tgz| {
                let at = tgz.len() - 8;
                tgz[at] ^= 1;
                tgz
            });
        }),
        refused("gzip-wrong-length", TarballGunzipFailed, |f| {
            bend_tgz(f, |mut tgz| {
                let at = tgz.len() - 4;
                tgz[at] ^= 1;
                tgz
            });
        }),
        refused("gzip-trailing-octet", TarballGunzipFailed, |f| {
            bend_tgz(f, |tgz| [&tgz[..], b"\0"].concat())
        }),
        refused("gzip-second-member", TarballGunzipFailed, |f| {
            bend_tgz(f, |tgz| {
                [
                    tgz,
                    gzip(&tar(&[Entry::file("prompts/colour.md", "Say red.")])),
                ]
                .concat()
            });
        }),
        refused("gzip-not-at-all", TarballGunzipFailed, |f| {
            bend_tgz(f, |_| b"PK\x03\x04 no".to_vec())
        }),
        refused("gzip-empty", TarballGunzipFailed, |f| {
            bend_tgz(f, |_| Vec::new())
        }),
    ]
}

fn size_cases() -> Vec<Case> {
    const MIB: usize = 1024 * 1024;
    vec![
        loads("size-largest-entry", |f| {
            f.files.insert("docs/a.txt".into(), vec![b'a'; 5 * MIB]);
        }),
        refused("size-entry", TarballEntryTooLarge, |f| {
            f.files.insert("docs/a.txt".into(), vec![b'a'; 5 * MIB + 1]);
        }),
        refused("size-declared-only", TarballEntryTooLarge, |f| {
            f.add(vec![Entry {
                size_field: Some(b"77777777777\0".to_vec()),
                ..Entry::file("docs/a", "")
            }]);
        }),
        refused("size-sum", TarballTooLarge, |f| {
            f.add(
                (0..12)
                    .map(|i| Entry::file(format!("docs/{i}"), vec![0; 9 * MIB / 2]))
                    .collect(),
            );
        }),
        refused("size-zeros-after-the-end", TarballTooLarge, |f| {
            bend_tar(f, |tar| [tar, vec![0; 51 * MIB]].concat());
        }),
        refused("size-manifest", TarballManifestTooLarge, |f| {
            f.manifest_text = Some(Box::new(|text| [text, vec![b' '; 256 * 1024]].concat()));
        }),
        refused("size-compressed", TarballTooLarge, |f| {
            bend_tgz(f, |tgz| [tgz, vec![0; 10 * MIB]].concat());
        }),
        refused("count-entries", TarballTooLarge, |f| {
            f.add(
                (0..4100)
                    .map(|i| Entry::file(format!("docs/{i}"), ""))
                    .collect(),
            );
        }),
        refused("count-headers", TarballTooLarge, |f| {
            f.add(
                (0..13_000)
                    .map(|_| Entry::pax(b'g', &[("comment", b"x")]))
                    .collect(),
            );
        }),
    ]
}

fn name_cases() -> Vec<Case> {
    let evil = |name: &'static str, path: &'static [u8]| {
        refused(name, TarballPathTraversal, move |f| {
            f.add(vec![Entry::file(path, "x")])
        })
    };
    vec![
        loads("name-dot-slash", |f| {
            f.bend_entries(|entries| {
                let dotted = entries.into_iter().map(|e| Entry {
                    name: [b"./", &e.name[..]].concat(),
                    ..e
                });
                [Entry::of(b'5', "./"), Entry::of(b'5', "./prompts/")]
                    .into_iter()
                    .chain(dotted)
                    .collect()
            });
        }),
        loads("name-two-dots-inside", |f| {
            f.add(vec![Entry::file("docs/a..b.md", "x")])
        }),
        evil("name-parent", b"../x"),
        evil("name-inner-parent", b"docs/../../x"),
        evil("name-ends-in-parent", b"docs/.."),
        evil("name-absolute", b"/x"),
        evil("name-backslash", b"docs\\x"),
        evil("name-drive", b"c:x"),
        evil("name-empty-segment", b"docs//x"),
        evil("name-dot-segment", b"docs/./x"),
        evil("name-trailing-dot", b"prompts/colour.md."),
        evil("name-trailing-blank", b"prompts/colour.md "),
        evil("name-segment-trailing-dot", b"docs./x"),
        evil("name-newline", b"docs/a\nb"),
        evil("name-delete", b"docs/a\x7fb"),
        evil("name-not-utf8", b"docs/\xff"),
        evil("name-none", b""),
        evil("name-file-like-a-folder", b"docs/"),
    ]
}

fn type_cases() -> Vec<Case> {
    let other = |name: &'static str, flag: u8| {
        refused(name, TarballPathTraversal, move |f| {
            f.add(vec![Entry::link(flag, "docs/x", "README.md")])
        })
    };
    vec![
        loads("type-nul", |f| {
            f.bend_entries(|entries| {
                entries
                    .into_iter()
                    .map(|e| Entry { flag: 0, ..e })
                    .collect()
            });
        }),
        loads("type-folders", |f| {
            f.add(vec![Entry::of(b'5', "prompts/"), Entry::of(b'5', "docs")])
        }),
        other("type-symlink", b'2'),
        other("type-hard-link", b'1'),
        other("type-character-device", b'3'),
        other("type-block-device", b'4'),
        other("type-fifo", b'6'),
        other("type-contiguous", b'7'),
        other("type-sparse", b'S'),
        other("type-volume", b'V'),
        other("type-long-link", b'K'),
        other("type-unknown", b'Z'),
        refused("type-manifest-is-a-link", TarballPathTraversal, |f| {
            f.bend_entries(|entries| {
                let real = |e: Entry| {
                    if e.name == b"pack.json" {
                        Entry {
                            name: b"real.json".to_vec(),
                            ..e
                        }
                    } else {
                        e
                    }
                };
                let link = Entry::link(b'2', "pack.json", "real.json");
                entries.into_iter().map(real).chain([link]).collect()
            });
        }),
        refused("type-folder-with-data", TarballTarParseFailed, |f| {
            f.add(vec![Entry {
                flag: b'5',
                ..Entry::file("docs/", "x")
            }]);
        }),
    ]
}

fn duplicate_cases() -> Vec<Case> {
    let second = |name: &'static str, path: &'static str| {
        refused(name, TarballTarParseFailed, move |f| {
            f.add(vec![Entry::file(path, "Say red.")])
        })
    };
    vec![
        second("double-prompt", "prompts/colour.md"),
        second("double-dot-slash", "./prompts/colour.md"),
        second("double-case", "Prompts/COLOUR.md"),
        second("double-manifest", "pack.json"),
        refused("double-manifest-first", TarballTarParseFailed, |f| {
            f.bend_entries(|entries| {
                [Entry::file("pack.json", "{}")]
                    .into_iter()
                    .chain(entries)
                    .collect()
            });
        }),
        refused("double-unicode-form", TarballTarParseFailed, |f| {
            f.add(vec![
                Entry::file("docs/\u{e9}", "1"),
                Entry::file("docs/e\u{301}", "2"),
            ]);
        }),
        refused("file-and-folder", TarballTarParseFailed, |f| {
            f.add(vec![Entry::file("prompts", "x")])
        }),
        refused("file-and-folder-below", TarballTarParseFailed, |f| {
            f.add(vec![Entry::file("README.md/x", "x")])
        }),
        refused("file-and-folder-entry", TarballTarParseFailed, |f| {
            f.add(vec![Entry::of(b'5', "readme.MD")])
        }),
        refused("manifest-missing", TarballManifestMissing, |f| {
            f.bend_entries(|entries| {
                entries
                    .into_iter()
                    .filter(|e| e.name != b"pack.json")
                    .collect()
            });
        }),
        refused("manifest-in-a-wrapper", TarballManifestMissing, |f| {
            f.bend_entries(|entries| {
                entries
                    .into_iter()
                    .map(|e| Entry {
                        name: [b"package/", &e.name[..]].concat(),
                        ..e
                    })
                    .collect()
            });
        }),
        refused("manifest-in-capitals", TarballManifestMissing, |f| {
            f.bend_entries(|entries| {
                let loud = |e: Entry| {
                    if e.name == b"pack.json" {
                        Entry {
                            name: b"PACK.JSON".to_vec(),
                            ..e
                        }
                    } else {
                        e
                    }
                };
                entries.into_iter().map(loud).collect()
            });
        }),
    ]
}

fn extended_cases() -> Vec<Case> {
    let before = |entry: Entry| {
        move |f: &mut Forge| f.bend_entries(|entries| [entry].into_iter().chain(entries).collect())
    };
    vec![
        loads(
            "pax-harmless",
            before(Entry::pax(
                b'x',
                &[("mtime", b"1.5"), ("SCHILY.xattr.user.x", b"\0=\n")],
            )),
        ),
        loads(
            "pax-global-comment",
            before(Entry::pax(b'g', &[("comment", b"hello")])),
        ),
        loads("pax-size-that-agrees", |f| {
            f.add(vec![
                Entry::pax(b'x', &[("size", b"1")]),
                Entry::file("docs/a", "x"),
            ])
        }),
        loads("pax-long-path", |f| {
            let path = long(".json");
            f.add(vec![
                Entry::pax(b'x', &[("path", path.as_bytes())]),
                Entry::file(&path[..100], "{}"),
            ]);
        }),
        loads("gnu-long-name", |f| {
            let path = long(".json");
            f.add(vec![
                Entry::long_name(path.as_bytes()),
                Entry::file(&path[..100], "{}"),
            ]);
        }),
        loads("ustar-prefix", |f| {
            f.add(vec![Entry {
                prefix: b"schemas/folder".to_vec(),
                ..Entry::file("name.json", "{}")
            }]);
        }),
        refused("ustar-prefix-escapes", TarballPathTraversal, |f| {
            f.add(vec![Entry {
                prefix: b"..".to_vec(),
                ..Entry::file("x", "")
            }]);
        }),
        refused("pax-path-escapes", TarballPathTraversal, |f| {
            f.add(vec![
                Entry::pax(b'x', &[("path", b"../x")]),
                Entry::file("docs/x", ""),
            ]);
        }),
        refused("pax-path-last-counts", TarballPathTraversal, |f| {
            f.add(vec![
                Entry::pax(b'x', &[("path", b"docs/y"), ("path", b"../x")]),
                Entry::file("docs/x", ""),
            ]);
        }),
        refused("pax-path-with-nul", TarballPathTraversal, |f| {
            f.add(vec![
                Entry::pax(b'x', &[("path", b"docs/a\0b")]),
                Entry::file("docs/x", ""),
            ]);
        }),
        refused("pax-path-second-manifest", TarballTarParseFailed, |f| {
            f.add(vec![
                Entry::pax(b'x', &[("path", b"pack.json")]),
                Entry::file("docs/x", "{}"),
            ]);
        }),
        refused("pax-size-that-differs", TarballTarParseFailed, |f| {
            f.add(vec![
                Entry::pax(b'x', &[("size", b"0")]),
                Entry::file("docs/x", "x"),
            ]);
        }),
        refused("pax-size-no-number", TarballTarParseFailed, |f| {
            f.add(vec![
                Entry::pax(b'x', &[("size", b"+1")]),
                Entry::file("docs/x", "x"),
            ]);
        }),
        refused(
            "pax-global-path",
            TarballTarParseFailed,
            before(Entry::pax(b'g', &[("path", b"pack.json")])),
        ),
        refused(
            "pax-global-size",
            TarballTarParseFailed,
            before(Entry::pax(b'g', &[("size", b"1")])),
        ),
        refused("pax-sparse", TarballTarParseFailed, |f| {
            f.add(vec![
                Entry::pax(b'x', &[("GNU.sparse.realsize", b"8000000000")]),
                Entry::file("docs/x", "x"),
            ]);
        }),
        refused("pax-without-a-file", TarballTarParseFailed, |f| {
            f.add(vec![Entry::pax(b'x', &[("comment", b"c")])])
        }),
        refused("pax-two-names", TarballTarParseFailed, |f| {
            f.add(vec![
                Entry::long_name(b"docs/a"),
                Entry::pax(b'x', &[("path", b"docs/b")]),
                Entry::file("c", ""),
            ]);
        }),
        refused(
            "pax-record-too-long",
            TarballTarParseFailed,
            before(Entry {
                flag: b'x',
                ..Entry::file("p", "999 path=x\n")
            }),
        ),
        refused(
            "pax-record-without-end",
            TarballTarParseFailed,
            before(Entry {
                flag: b'x',
                ..Entry::file("p", "10 path=xx")
            }),
        ),
        refused(
            "pax-record-without-length",
            TarballTarParseFailed,
            before(Entry {
                flag: b'x',
                ..Entry::file("p", " path=x\n")
            }),
        ),
        refused(
            "pax-header-too-large",
            TarballTarParseFailed,
            before(Entry::pax(b'x', &[("comment", &[b'x'; 70_000])])),
        ),
        refused("gnu-name-escapes", TarballPathTraversal, |f| {
            f.add(vec![Entry::long_name(b"../x"), Entry::file("x", "")])
        }),
        refused("gnu-name-too-long", TarballTarParseFailed, |f| {
            f.add(vec![Entry::long_name(&[b'a'; 600]), Entry::file("x", "")])
        }),
        refused("gnu-two-names", TarballTarParseFailed, |f| {
            f.add(vec![
                Entry::long_name(b"docs/a"),
                Entry::long_name(b"docs/b"),
                Entry::file("x", ""),
            ]);
        }),
    ]
}

fn header_cases() -> Vec<Case> {
    let sized = |name: &'static str, field: &'static [u8]| {
        refused(name, TarballTarParseFailed, move |f| {
            f.add(vec![Entry {
                size_field: Some(field.to_vec()),
                ..Entry::file("docs/x", "x")
            }]);
        })
    };
    vec![
        loads("size-in-base-256", |f| {
            f.add(vec![Entry {
                size_field: Some(b"\x80\0\0\0\0\0\0\0\0\0\0\x01".to_vec()),
                ..Entry::file("docs/x", "x")
            }]);
        }),
        sized("size-negative", &[0xff; 12]),
        sized("size-beyond-64-bit", b"\x80\0\0\x01\0\0\0\0\0\0\0\x01"),
        sized("size-wraps", b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"),
        sized("size-not-octal", b"0000000009z\0"),
        sized("size-in-two-parts", b"000001 0001\0"),
        sized("size-blank", b"\0\0\0\0\0\0\0\0\0\0\0\0"),
        refused("header-checksum", TarballTarParseFailed, |f| {
            f.add(vec![Entry {
                checksum: Some(*b"000001\0 "),
                ..Entry::file("docs/x", "x")
            }]);
        }),
        refused("header-unknown-format", TarballTarParseFailed, |f| {
            f.add(vec![Entry {
                magic: *b"ustar\x00\x00\x00",
                ..Entry::file("docs/x", "x")
            }]);
        }),
        refused("data-past-the-end", TarballTarParseFailed, |f| {
            f.add(vec![Entry {
                size_field: Some(b"00000100000\0".to_vec()),
                ..Entry::file("docs/x", "x")
            }]);
        }),
        refused("data-after-the-end", TarballTarParseFailed, |f| {
            bend_tar(f, |archive| {
                [archive, tar(&[Entry::file("prompts/colour.md", PROMPT)])].concat()
            });
        }),
        refused("data-after-one-zero-block", TarballTarParseFailed, |f| {
            bend_tar(f, |archive| {
                let more = Entry::file("docs/x", "x").bytes();
                [&archive[..archive.len() - 512], &more, &END].concat()
            });
        }),
        refused("no-tar", TarballTarParseFailed, |f| {
            bend_tar(f, |_| b"hello ".repeat(200))
        }),
        loads("padded-to-a-record", |f| {
            bend_tar(f, |mut archive| {
                archive.resize(archive.len().next_multiple_of(10_240), 0);
                archive
            });
        }),
        loads("end-marker-missing", |f| {
            bend_tar(f, |archive| archive[..archive.len() - 1024].to_vec())
        }),
    ]
}
