//! The terms that a document may use, with their IRIs: the part of Verifiable Credentials 2.0, Open
//! Badges 3.0 and its extensions that this host issues.
//!
//! The table has two uses: [`super::contexts`] builds JSON-LD contexts from it, and
//! [`super::closed`] rejects everything that is not in it.

pub const CREDENTIALS_V2: &str = "https://www.w3.org/ns/credentials/v2";
/// Open Badges 3.0, third revision of the context.
pub const OPEN_BADGES: &str = "https://purl.imsglobal.org/spec/ob/v3p0/context-3.0.3.json";
/// The extensions of the Open Badges examples; without them the type of a `credentialSchema` is
/// undefined.
pub const OPEN_BADGES_EXTENSIONS: &str = "https://purl.imsglobal.org/spec/ob/v3p0/extensions.json";

/// The form of a term's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A string.
    Text,
    /// A string of this data type.
    Typed(&'static str),
    Boolean,
    /// Strings in a significant order.
    TextList,
    /// An embedded node.
    Node,
    /// An embedded node, or the IRI of one.
    Link,
    /// One of these names, each with its IRI.
    Vocabulary(&'static [(&'static str, &'static str)]),
}

#[derive(Clone, Copy, Debug)]
pub struct Term {
    pub name: &'static str,
    /// The start of the IRI.
    pub prefix: &'static str,
    /// The rest of the IRI.
    pub rest: &'static str,
    pub kind: Kind,
}

/// A type of objects, with its specific members.
#[derive(Clone, Copy, Debug)]
pub struct Type {
    pub name: &'static str,
    /// The start of the IRI.
    pub prefix: &'static str,
    /// The rest of the IRI.
    pub rest: &'static str,
    pub terms: &'static [Term],
}

#[derive(Debug)]
pub struct Vocabulary {
    pub url: &'static str,
    /// Members that any object may have.
    pub terms: &'static [Term],
    pub types: &'static [Type],
}

const SCHEMA_ORG: &str = "https://schema.org/";
const CREDENTIALS: &str = "https://www.w3.org/2018/credentials#";
const STATUS: &str = "https://www.w3.org/ns/credentials/status#";
const SECURITY: &str = "https://w3id.org/security#";
const BADGES: &str = "https://purl.imsglobal.org/spec/vc/ob/vocab.html#";
const DATE_TIME: Kind = Kind::Typed("http://www.w3.org/2001/XMLSchema#dateTime");
const ANY_URI: Kind = Kind::Typed("https://www.w3.org/2001/XMLSchema#anyURI");
const MULTIBASE: Kind = Kind::Typed("https://w3id.org/security#multibase");

const fn term(name: &'static str, prefix: &'static str, kind: Kind) -> Term {
    renamed(name, prefix, name, kind)
}

const fn renamed(name: &'static str, prefix: &'static str, rest: &'static str, kind: Kind) -> Term {
    Term {
        name,
        prefix,
        rest,
        kind,
    }
}

const fn class(name: &'static str, prefix: &'static str, terms: &'static [Term]) -> Type {
    Type {
        name,
        prefix,
        rest: name,
        terms,
    }
}

const V2: Vocabulary = Vocabulary {
    url: CREDENTIALS_V2,
    terms: &[
        term("description", SCHEMA_ORG, Kind::Text),
        term("name", SCHEMA_ORG, Kind::Text),
    ],
    types: &[
        class(
            "VerifiableCredential",
            CREDENTIALS,
            &[
                term("credentialSchema", CREDENTIALS, Kind::Link),
                term("credentialStatus", CREDENTIALS, Kind::Link),
                term("credentialSubject", CREDENTIALS, Kind::Link),
                term("evidence", CREDENTIALS, Kind::Link),
                term("issuer", CREDENTIALS, Kind::Link),
                term("validFrom", CREDENTIALS, DATE_TIME),
                term("validUntil", CREDENTIALS, DATE_TIME),
            ],
        ),
        class("BitstringStatusListCredential", STATUS, &[]),
        class(
            "BitstringStatusList",
            STATUS,
            &[
                term("encodedList", STATUS, MULTIBASE),
                term("statusPurpose", STATUS, Kind::Text),
            ],
        ),
        class(
            "BitstringStatusListEntry",
            STATUS,
            &[
                term("statusListCredential", STATUS, Kind::Link),
                term("statusListIndex", STATUS, Kind::Text),
                term("statusPurpose", STATUS, Kind::Text),
            ],
        ),
        class(
            "DataIntegrityProof",
            SECURITY,
            &[
                term("created", "http://purl.org/dc/terms/", DATE_TIME),
                term(
                    "cryptosuite",
                    SECURITY,
                    Kind::Typed("https://w3id.org/security#cryptosuiteString"),
                ),
                term(
                    "proofPurpose",
                    SECURITY,
                    Kind::Vocabulary(&[(
                        "assertionMethod",
                        "https://w3id.org/security#assertionMethod",
                    )]),
                ),
                term("verificationMethod", SECURITY, Kind::Link),
            ],
        ),
    ],
};

const OB: Vocabulary = Vocabulary {
    url: OPEN_BADGES,
    terms: &[
        term("alignment", BADGES, Kind::Node),
        term("inLanguage", SCHEMA_ORG, Kind::Text),
        term("narrative", BADGES, Kind::Text),
        term("url", SCHEMA_ORG, ANY_URI),
    ],
    types: &[
        class("OpenBadgeCredential", BADGES, &[]),
        class(
            "Achievement",
            BADGES,
            &[
                term("achievementType", BADGES, Kind::Text),
                renamed("criteria", BADGES, "Criteria", Kind::Link),
                term("resultDescription", BADGES, Kind::Node),
                renamed("tag", SCHEMA_ORG, "keywords", Kind::Text),
                term("version", BADGES, Kind::Text),
            ],
        ),
        class(
            "AchievementSubject",
            BADGES,
            &[
                term("achievement", BADGES, Kind::Node),
                term("identifier", BADGES, Kind::Node),
                term("result", BADGES, Kind::Node),
            ],
        ),
        Type {
            name: "Alignment",
            prefix: SCHEMA_ORG,
            rest: "AlignmentObject",
            terms: &[
                term("targetCode", BADGES, Kind::Text),
                term("targetDescription", SCHEMA_ORG, Kind::Text),
                term("targetFramework", SCHEMA_ORG, Kind::Text),
                term("targetName", SCHEMA_ORG, Kind::Text),
                term("targetType", BADGES, Kind::Text),
                term("targetUrl", SCHEMA_ORG, ANY_URI),
            ],
        },
        class("Criteria", BADGES, &[]),
        class("Evidence", BADGES, &[]),
        class(
            "IdentityObject",
            BADGES,
            &[
                term("hashed", BADGES, Kind::Boolean),
                term("identityHash", BADGES, Kind::Text),
                term("identityType", BADGES, Kind::Text),
            ],
        ),
        class("Profile", BADGES, &[]),
        class(
            "Result",
            BADGES,
            &[
                term("resultDescription", BADGES, ANY_URI),
                term("value", SCHEMA_ORG, Kind::Text),
            ],
        ),
        class(
            "ResultDescription",
            BADGES,
            &[
                term("allowedValue", BADGES, Kind::TextList),
                term("resultType", BADGES, Kind::Text),
                term("valueMax", BADGES, Kind::Text),
                term("valueMin", BADGES, Kind::Text),
            ],
        ),
    ],
};

const EXTENSIONS: Vocabulary = Vocabulary {
    url: OPEN_BADGES_EXTENSIONS,
    terms: &[],
    types: &[class(
        "1EdTechJsonSchemaValidator2019",
        "https://purl.imsglobal.org/spec/vccs/v1p0/context.json#",
        &[],
    )],
};

/// The complete lists of contexts that a document may name, in this order.
const KNOWN: [&[&Vocabulary]; 2] = [&[&V2], &[&V2, &OB, &EXTENSIONS]];

/// The vocabularies of a list of contexts; `None` for an unknown list.
pub fn vocabularies(urls: &[&str]) -> Option<&'static [&'static Vocabulary]> {
    KNOWN
        .into_iter()
        .find(|known| known.iter().map(|it| it.url).eq(urls.iter().copied()))
}

/// The vocabulary with this context URL.
pub fn vocabulary(url: &str) -> Option<&'static Vocabulary> {
    [&V2, &OB, &EXTENSIONS].into_iter().find(|it| it.url == url)
}
