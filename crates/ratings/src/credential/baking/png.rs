//! PNG: the credential is an uncompressed `iTXt` chunk with the keyword `openbadgecredential`
//! before the image data.

use super::{BakingFault, MAX_OCTETS, sized};

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
const KEYWORD: &[u8] = b"openbadgecredential";
/// Size of the length, type and checksum of a chunk, in bytes.
const FRAME: usize = 12;

/// Whether a file starts with the PNG signature.
pub fn is_png(file: &[u8]) -> bool {
    file.starts_with(SIGNATURE)
}

struct Chunk<'a> {
    kind: [u8; 4],
    data: &'a [u8],
    /// All bytes of the chunk.
    raw: &'a [u8],
}

/// All chunks; the last one must end the file.
fn chunks(file: &[u8]) -> Result<Vec<Chunk<'_>>, BakingFault> {
    const NO_PNG: BakingFault = BakingFault::Format("complete PNG");
    if file.len() > MAX_OCTETS {
        return Err(BakingFault::TooLarge);
    }
    let mut rest = file.strip_prefix(SIGNATURE).ok_or(NO_PNG)?;
    let mut chunks = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let (kind, after) = after.split_first_chunk::<4>().ok_or(NO_PNG)?;
        let (data, after) = after.split_at_checked(length).ok_or(NO_PNG)?;
        let (sum, after) = after.split_first_chunk::<4>().ok_or(NO_PNG)?;
        if checksum(*kind, data) != *sum {
            return Err(BakingFault::Checksum(
                String::from_utf8_lossy(kind).escape_debug().to_string(),
            ));
        }
        let raw = rest.get(..FRAME + length).ok_or(NO_PNG)?;
        chunks.push(Chunk {
            kind: *kind,
            data,
            raw,
        });
        rest = after;
    }
    let sound = chunks.first().is_some_and(|it| &it.kind == b"IHDR")
        && chunks.last().is_some_and(|it| &it.kind == b"IEND");
    if sound && rest.is_empty() {
        Ok(chunks)
    } else {
        Err(NO_PNG)
    }
}

fn checksum(kind: [u8; 4], data: &[u8]) -> [u8; 4] {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&kind);
    sum.update(data);
    sum.finalize().to_be_bytes()
}

/// The content of a text chunk, if its keyword is that of credentials.
fn text_of<'a>(chunk: &Chunk<'a>) -> Option<&'a [u8]> {
    let textual = [b"iTXt", b"tEXt", b"zTXt"].contains(&&chunk.kind);
    let rest = chunk.data.strip_prefix(KEYWORD).filter(|_| textual)?;
    rest.strip_prefix(&[0])
}

/// The credential in a picture.
///
/// # Errors
/// The picture contains no credential, more than one, or a compressed one.
pub fn extract(file: &[u8]) -> Result<String, BakingFault> {
    let chunks = chunks(file)?;
    let mut found = chunks
        .iter()
        .filter_map(|chunk| text_of(chunk).map(|text| (chunk.kind, text)));
    let (kind, text) = found.next().ok_or(BakingFault::Nothing)?;
    if found.next().is_some() {
        return Err(BakingFault::Several);
    }
    if &kind != b"iTXt" {
        return Err(BakingFault::Unsupported("the chunk is not iTXt"));
    }
    // Compression flag (0), compression method, then a language tag and a translated keyword, each
    // terminated by a null byte.
    let text = text
        .strip_prefix(&[0, 0])
        .ok_or(BakingFault::Unsupported("it is compressed"))?;
    let text = text.splitn(3, |octet| *octet == 0).nth(2);
    let text = text.and_then(|text| std::str::from_utf8(text).ok());
    sized(
        text.ok_or(BakingFault::Unsupported("it is not UTF-8"))?
            .to_owned(),
    )
}

/// Embeds a credential in a picture and replaces an existing one.
///
/// # Errors
/// The file is not a PNG.
pub fn bake(file: &[u8], credential: &str) -> Result<Vec<u8>, BakingFault> {
    let chunks = chunks(file)?;
    let mut data = KEYWORD.to_vec();
    data.extend_from_slice(&[0; 5]);
    data.extend_from_slice(credential.as_bytes());
    let length = u32::try_from(data.len()).map_err(|_| BakingFault::Credential)?;
    let mut baked = SIGNATURE.to_vec();
    for chunk in &chunks {
        if text_of(chunk).is_some() {
            continue;
        }
        baked.extend_from_slice(chunk.raw);
        if &chunk.kind == b"IHDR" {
            baked.extend_from_slice(&length.to_be_bytes());
            baked.extend_from_slice(b"iTXt");
            baked.extend_from_slice(&data);
            baked.extend_from_slice(&checksum(*b"iTXt", &data));
        }
    }
    Ok(baked)
}
