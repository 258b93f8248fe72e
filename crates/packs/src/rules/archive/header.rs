//! Tar headers. A header that two readers could interpret differently is refused.

use tar::Header;

use super::MAX_NAME;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Folder,
    /// PAX header for the next entry.
    LocalExtended,
    /// PAX header for all following entries.
    GlobalExtended,
    /// GNU long name for the next entry.
    LongName,
    /// Links, devices, sparse files and volume headers, which packs must not have.
    Other,
}

#[derive(Debug)]
pub(super) struct RawHeader {
    pub kind: Kind,
    pub size: u64,
    pub name: Vec<u8>,
}

type Fault = &'static str;

impl RawHeader {
    /// Reads a header whose checksum is already verified.
    pub(super) fn parse(header: &Header) -> Result<Self, Fault> {
        let block = header.as_bytes();
        // mode, uid, gid and mtime are unused, but other readers may fail on bad values, so this
        // one must too.
        for range in [100..108, 108..116, 116..124, 136..148] {
            number(block.get(range).unwrap_or_default())?;
        }
        let size =
            number(block.get(124..136).unwrap_or_default())?.ok_or("an entry has no size")?;
        let kind = match block.get(156).copied().unwrap_or_default() {
            b'0' | 0 => Kind::File,
            b'5' => Kind::Folder,
            b'x' => Kind::LocalExtended,
            b'g' => Kind::GlobalExtended,
            b'L' => Kind::LongName,
            _ => Kind::Other,
        };
        Ok(Self {
            kind,
            size,
            name: name(block)?,
        })
    }
}

/// An octal or positive base-256 number; `None` when the field is blank.
fn number(field: &[u8]) -> Result<Option<u64>, Fault> {
    const FAULT: Fault = "a header field is not a number";
    if field.first().is_some_and(|first| first & 0x80 != 0) {
        let mut value = 0_u64;
        for (index, octet) in field.iter().enumerate() {
            let octet = if index == 0 { octet ^ 0x80 } else { *octet };
            value = value
                .checked_mul(256)
                .ok_or(FAULT)?
                .checked_add(octet.into())
                .ok_or(FAULT)?;
        }
        return if i64::try_from(value).is_ok() {
            Ok(Some(value))
        } else {
            Err(FAULT)
        };
    }
    let text = std::str::from_utf8(field).map_err(|_| FAULT)?;
    let digits = text.trim_start_matches(' ').trim_end_matches([' ', '\0']);
    if digits.is_empty() {
        return Ok(None);
    }
    if !digits.bytes().all(|octet| matches!(octet, b'0'..=b'7')) {
        return Err(FAULT);
    }
    u64::from_str_radix(digits, 8).map(Some).map_err(|_| FAULT)
}

/// The name, preceded by the prefix of a ustar header.
fn name(block: &[u8; 512]) -> Result<Vec<u8>, Fault> {
    let own = text(block.get(..100).unwrap_or_default());
    let magic = block.get(257..265).unwrap_or_default();
    if magic == b"ustar\x0000" {
        let prefix = text(block.get(345..500).unwrap_or_default());
        if !prefix.is_empty() {
            return Ok([prefix, b"/", own].concat());
        }
    } else if magic.starts_with(b"ustar") && magic != b"ustar  \0" {
        return Err("a header has an unknown tar format");
    }
    Ok(own.to_vec())
}

fn text(field: &[u8]) -> &[u8] {
    field.split(|octet| *octet == 0).next().unwrap_or_default()
}

/// What extended headers set for the next entry.
#[derive(Debug, Default)]
pub(super) struct Extended {
    path: Option<Vec<u8>>,
    size: Option<u64>,
    long_name: Option<Vec<u8>>,
    seen: bool,
}

impl Extended {
    /// Whether an extended header is waiting for its entry.
    pub(super) fn is_pending(&self) -> bool {
        self.seen
    }

    pub(super) fn read(&mut self, kind: Kind, octets: &[u8]) -> Result<(), Fault> {
        match kind {
            Kind::LongName => {
                self.seen = true;
                let end = octets
                    .iter()
                    .rposition(|octet| *octet != 0)
                    .map_or(0, |last| last + 1);
                let name = octets.get(..end).unwrap_or_default();
                if self.long_name.replace(name.to_vec()).is_some() {
                    return Err("an entry has two long names");
                }
                Ok(())
            }
            Kind::GlobalExtended => each_record(octets, |key, _| match key {
                b"path" | b"size" | b"linkpath" => {
                    Err("a global header may not set path, size or linkpath")
                }
                _ => Ok(()),
            }),
            _ => {
                self.seen = true;
                each_record(octets, |key, value| {
                    match key {
                        b"path" => self.path = Some(value.to_vec()),
                        b"size" => {
                            let digits = std::str::from_utf8(value).ok();
                            let plain = digits.filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
                            let size = plain.and_then(|d| d.parse().ok());
                            self.size = Some(size.ok_or("an extended size is not a number")?);
                        }
                        _ => {}
                    }
                    Ok(())
                })
            }
        }
    }

    /// The effective name of an entry.
    pub(super) fn apply(self, header: &RawHeader) -> Result<Vec<u8>, Fault> {
        if self.size.is_some_and(|size| size != header.size) {
            return Err("an extended header changes an entry's size");
        }
        let name = match (self.path, self.long_name) {
            (Some(path), Some(long)) if path != long => {
                return Err("an entry has two names");
            }
            (Some(path), _) => path,
            (None, Some(long)) => long,
            (None, None) => header.name.clone(),
        };
        if name.len() > MAX_NAME {
            Err("a name is longer than 512 bytes")
        } else {
            Ok(name)
        }
    }
}

/// PAX records: `length SP key "=" value LF`, where length counts the whole record.
fn each_record<'a>(
    mut octets: &'a [u8],
    mut visit: impl FnMut(&'a [u8], &'a [u8]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    const FAULT: Fault = "an extended header is malformed";
    while !octets.is_empty() {
        let blank = octets
            .iter()
            .position(|octet| *octet == b' ')
            .ok_or(FAULT)?;
        let digits = octets.get(..blank).unwrap_or_default();
        if digits.is_empty() || digits.len() > 7 || !digits.iter().all(u8::is_ascii_digit) {
            return Err(FAULT);
        }
        let length: usize = std::str::from_utf8(digits)
            .ok()
            .and_then(|d| d.parse().ok())
            .ok_or(FAULT)?;
        let record = octets.get(blank + 1..length).ok_or(FAULT)?;
        let record = record.strip_suffix(b"\n").ok_or(FAULT)?;
        let equals = record
            .iter()
            .position(|octet| *octet == b'=')
            .ok_or(FAULT)?;
        let key = record.get(..equals).unwrap_or_default();
        let value = record.get(equals + 1..).unwrap_or_default();
        if key.is_empty() {
            return Err(FAULT);
        }
        if key.starts_with(b"GNU.sparse.") {
            return Err("sparse files are not allowed");
        }
        visit(key, value)?;
        octets = octets.get(length..).unwrap_or_default();
    }
    Ok(())
}
