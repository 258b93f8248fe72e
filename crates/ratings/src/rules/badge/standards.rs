//! The standards that a badge is mapped to. The mapping is not a certification.

/// Name, framework that it belongs to, and address.
pub const ALIGNMENT: [(&str, Option<&str>, &str); 4] = [
    (
        "NIST AI 100-1",
        Some("AI Risk Management Framework 1.0"),
        "https://doi.org/10.6028/NIST.AI.100-1",
    ),
    (
        "ISO/IEC 42001:2023",
        None,
        "https://www.iso.org/standard/81230.html",
    ),
    (
        "ISO/IEC 25059:2023",
        None,
        "https://www.iso.org/standard/80655.html",
    ),
    (
        "ISO/IEC 22989:2022",
        None,
        "https://www.iso.org/standard/74296.html",
    ),
];
