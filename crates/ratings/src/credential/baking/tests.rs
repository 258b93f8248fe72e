use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::credential;

const SVG: &str = r#"<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"><rect/></svg>"#;

/// One grey pixel.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0\x3a\x7e\x9b\x55\0\0\0\x0aIDAT\x78\x9c\x63\x68\0\0\0\x82\0\x81\x77\xcd\x72\xb6\0\0\0\0IEND\xae\x42\x60\x82";

fn baked_svg(text: &str) -> Vec<u8> {
    svg::bake(SVG, text).unwrap().into_bytes()
}

#[test]
fn a_credential_is_baked_where_the_open_badges_standard_expects_it() {
    let svg = String::from_utf8(baked_svg("{}")).unwrap();
    assert!(
        svg.contains(
            "xmlns=\"http://www.w3.org/2000/svg\"><openbadges:credential \
             xmlns:openbadges=\"https://purl.imsglobal.org/ob/v3p0\"><![CDATA[{}]]></openbadges:credential><rect/>"
        ),
        "{svg}"
    );
    let png = png::bake(PNG, "{}").unwrap();
    let chunk = b"iTXtopenbadgecredential\0\0\0\0\0{}";
    let place = png.windows(chunk.len()).position(|it| it == chunk).unwrap();
    let image = png.windows(4).position(|it| it == b"IDAT").unwrap();
    assert!(place < image);
}

#[test]
fn baking_again_replaces_the_credential_in_png_and_fails_in_svg() {
    let png = png::bake(&png::bake(PNG, "old").unwrap(), "new").unwrap();
    assert_eq!(extract(&png).unwrap(), b"new");
    let svg = String::from_utf8(baked_svg("old")).unwrap();
    assert_eq!(svg::bake(&svg, "new"), Err(BakingFault::Several));
}

#[rstest]
#[case::nothing(SVG, BakingFault::Nothing)]
#[case::html("<html><body/></html>", BakingFault::Format("SVG"))]
#[case::entities(
    "<!DOCTYPE svg [<!ENTITY a \"b\">]><svg xmlns=\"http://www.w3.org/2000/svg\"/>",
    BakingFault::Format("SVG")
)]
#[case::token(
    "<svg xmlns=\"http://www.w3.org/2000/svg\"><o:credential xmlns:o=\"https://purl.imsglobal.org/ob/v3p0\" verify=\"e30.e30.x\"/></svg>",
    BakingFault::Unsupported("it is a signed token in `verify`")
)]
#[case::twice(
    "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:o=\"https://purl.imsglobal.org/ob/v3p0\"><o:credential>a</o:credential><o:credential>b</o:credential></svg>",
    BakingFault::Several
)]
fn unusable_svg_images_are_rejected_with_a_reason(
    #[case] svg: &str,
    #[case] expected: BakingFault,
) {
    assert_eq!(extract(svg.as_bytes()), Err(expected));
}

#[test]
fn damaged_pictures_are_refused() {
    let png = png::bake(PNG, "{\"a\":1}").unwrap();
    for place in 8..png.len() {
        let mut other = png.clone();
        other[place] ^= 1;
        assert!(extract(&other).is_err(), "byte {place}");
        assert!(extract(&png[..place]).is_err(), "cut at {place}");
    }
    assert_eq!(extract(PNG), Err(BakingFault::Nothing));
}

#[test]
fn images_with_several_or_compressed_credentials_are_rejected() {
    let once = png::bake(PNG, "one").unwrap();
    let start = once.windows(4).position(|it| it == b"iTXt").unwrap() - 4;
    let length = 12 + u32::from_be_bytes(once[start..start + 4].try_into().unwrap()) as usize;
    let chunk = &once[start..start + length];
    let twice = [&once[..start], chunk, chunk, &once[start + length..]].concat();
    assert_eq!(extract(&twice), Err(BakingFault::Several));
    let mut data = b"openbadgecredential\0\x01\0\0\0x".to_vec();
    let mut sum = crc32fast::Hasher::new();
    sum.update(b"iTXt");
    sum.update(&data);
    let mut compressed = u32::try_from(data.len()).unwrap().to_be_bytes().to_vec();
    compressed.extend_from_slice(b"iTXt");
    compressed.append(&mut data);
    compressed.extend_from_slice(&sum.finalize().to_be_bytes());
    let packed = [&once[..start], &compressed[..], &once[start + length..]].concat();
    assert_eq!(
        extract(&packed),
        Err(BakingFault::Unsupported("it is compressed"))
    );
}

#[test]
fn a_file_that_is_not_an_image_is_read_as_the_credential() {
    assert_eq!(extract(b" {\"a\":1}").unwrap(), b" {\"a\":1}");
}

#[test]
fn oversized_images_and_credentials_are_rejected() {
    let large = "x".repeat(credential::MAX_OCTETS + 1);
    assert_eq!(
        extract(&png::bake(PNG, &large).unwrap()),
        Err(BakingFault::Credential)
    );
    assert_eq!(extract(&baked_svg(&large)), Err(BakingFault::Credential));
    let mut picture = SVG.as_bytes().to_vec();
    picture.resize(MAX_OCTETS + 1, b' ');
    assert_eq!(extract(&picture), Err(BakingFault::TooLarge));
}

#[test]
fn pictures_that_take_long_to_read_are_not_read() {
    let of = |inside: &str| {
        let svg = format!("<svg xmlns=\"http://www.w3.org/2000/svg\">{inside}</svg>");
        extract(svg.as_bytes())
    };
    let many = |n: usize, what: fn(usize) -> String| (0..n).map(what).collect::<String>();
    let attributes = many(100_000, |n| format!(" a{n}=''"));
    assert!(matches!(
        of(&format!("<g{attributes}/>")),
        Err(BakingFault::Unsupported(_))
    ));
    // A `>` within an attribute value does not end a tag.
    assert!(matches!(
        of(&format!("<g b='>'{attributes}/>")),
        Err(BakingFault::Unsupported(_))
    ));
    let spaces = many(5_000, |n| format!("<g xmlns:a{n}='a:{n}'>"));
    assert!(matches!(of(&spaces), Err(BakingFault::Unsupported(_))));
    assert_eq!(of(&"<g/>".repeat(20_000)), Err(BakingFault::Format("SVG")));
    assert_eq!(
        of(&format!("{}{}", "<g>".repeat(9_000), "</g>".repeat(9_000))),
        Err(BakingFault::Nothing)
    );
    // Characters inside a credential do not count as attributes.
    let content = format!("{{\"a\":\"{}\"}}", "=".repeat(5_000));
    assert_eq!(extract(&baked_svg(&content)).unwrap(), content.as_bytes());
}

proptest! {
    #[test]
    fn baked_credentials_are_extracted_unchanged(text in "\\PC{0,60}(]]>|&amp;|<!--)?\\PC{0,20}") {
        let credential = credential::served(&serde_json::json!({ "name": text }));
        prop_assert_eq!(extract(&baked_svg(&credential)).unwrap(), credential.as_bytes());
        prop_assert_eq!(extract(&png::bake(PNG, &credential).unwrap()).unwrap(), credential.as_bytes());
    }

    #[test]
    fn extracting_from_arbitrary_bytes_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = extract(&bytes);
        let _ = extract(&[&b"\x89PNG\r\n\x1a\n"[..], &bytes].concat());
        let _ = extract(&[&b"<svg"[..], &bytes].concat());
    }
}
