//! SVG: the credential is the text of one `openbadges:credential`, the first child of the root.

use roxmltree::{Document, Node, ParsingOptions};

use super::{BakingFault, MAX_OCTETS, sized};

const NAMESPACE: &str = "https://purl.imsglobal.org/ob/v3p0";
const SVG: &str = "http://www.w3.org/2000/svg";
/// Maximum number of nodes in a picture.
const MAX_NODES: u32 = 10_000;
/// Maximum number of attributes of an element: parsers compare them pairwise.
const MAX_ATTRIBUTES: usize = 512;
/// Maximum number of namespace declarations in a picture: every element carries all those in scope.
const MAX_NAMESPACES: usize = 256;

/// Whether a file looks like markup.
pub fn is_markup(file: &[u8]) -> bool {
    let text = file.strip_prefix(b"\xef\xbb\xbf").unwrap_or(file);
    text.trim_ascii_start().starts_with(b"<")
}

fn parse(file: &[u8]) -> Result<Document<'_>, BakingFault> {
    const NO_SVG: BakingFault = BakingFault::Format("SVG");
    if file.len() > MAX_OCTETS {
        return Err(BakingFault::TooLarge);
    }
    let text = std::str::from_utf8(file).map_err(|_| NO_SVG)?;
    if !is_within_limits(text) {
        return Err(BakingFault::Unsupported(
            "an element has too many attributes, or the picture too many namespaces",
        ));
    }
    // Entities can expand to huge content, and badges do not need them.
    let options = ParsingOptions {
        allow_dtd: false,
        nodes_limit: MAX_NODES,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(text, options).map_err(|_| NO_SVG)?;
    if document.root_element().has_tag_name((SVG, "svg")) {
        Ok(document)
    } else {
        Err(NO_SVG)
    }
}

/// Checks the limits on the raw text, because parse time grows with the square of these numbers.
/// Between one `<` and the next lie the attributes of a tag and the text after it.
fn is_within_limits(text: &str) -> bool {
    let is_data = |part: &&str| part.starts_with("![CDATA[") || part.starts_with("!--");
    let mut tags = text.split('<').filter(|part| !is_data(part));
    tags.all(|part| part.matches('=').count() <= MAX_ATTRIBUTES)
        && text.matches("xmlns").count() <= MAX_NAMESPACES
}

/// The credential in a picture.
///
/// # Errors
/// The picture contains no credential, more than one, or one in the wrong place.
pub fn extract(file: &[u8]) -> Result<String, BakingFault> {
    let document = parse(file)?;
    let mut found = document.descendants().filter(is_credential);
    let credential = found.next().ok_or(BakingFault::Nothing)?;
    if found.next().is_some() {
        return Err(BakingFault::Several);
    }
    if credential.has_attribute("verify") {
        return Err(BakingFault::Unsupported("it is a signed token in `verify`"));
    }
    if credential.children().any(|node| node.is_element()) {
        return Err(BakingFault::Unsupported("it contains child elements"));
    }
    let text = credential.children().filter(|node| node.is_text());
    sized(text.filter_map(|node| node.text()).collect())
}

fn is_credential(node: &Node<'_, '_>) -> bool {
    node.has_tag_name((NAMESPACE, "credential"))
}

/// Embeds a credential in a picture without one.
///
/// # Errors
/// The file is not an SVG, or already contains a credential.
pub fn bake(file: &str, credential: &str) -> Result<String, BakingFault> {
    let document = parse(file.as_bytes())?;
    if document.descendants().any(|node| is_credential(&node)) {
        return Err(BakingFault::Several);
    }
    let first = document.root_element().first_child();
    let place = first.ok_or(BakingFault::Format("SVG with an element"))?;
    let (before, after) = file
        .split_at_checked(place.range().start)
        .ok_or(BakingFault::Format("SVG"))?;
    // A CDATA section cannot contain its end marker, so the marker is split between two sections.
    let text = credential.replace("]]>", "]]]]><![CDATA[>");
    Ok(format!(
        "{before}<openbadges:credential xmlns:openbadges=\"{NAMESPACE}\"><![CDATA[{text}]]></openbadges:credential>{after}"
    ))
}
