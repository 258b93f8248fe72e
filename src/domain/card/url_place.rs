//! Where in a card a URL stands. Small, and written out only when somebody is told: a card of a mebibyte has room for a hundred
//! thousand URLs below a name that is half a mebibyte long.

use std::fmt;

use super::finding::pointer_token;

/// A place of a URL; shown as a JSON Pointer (RFC 6901).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlPlace<'a> {
    /// A member of the card.
    Own(&'static str),
    /// A further interface.
    Interface(usize),
    /// The provider's.
    Provider,
    /// In a security scheme.
    Scheme {
        /// Its name.
        scheme: &'a str,
        /// What it is wrapped in.
        wrapper: Option<&'static str>,
        /// The flow, where it is one's.
        flow: Option<&'a str>,
        /// The member.
        member: &'static str,
    },
}

impl fmt::Display for UrlPlace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(member) => write!(f, "/{member}"),
            Self::Interface(index) => write!(f, "/additionalInterfaces/{index}/url"),
            Self::Provider => f.write_str("/provider/url"),
            Self::Scheme {
                scheme,
                wrapper,
                flow,
                member,
            } => {
                write!(f, "/securitySchemes/{}", pointer_token(scheme))?;
                if let Some(wrapper) = wrapper {
                    write!(f, "/{wrapper}")?;
                }
                if let Some(flow) = flow {
                    write!(f, "/flows/{}", pointer_token(flow))?;
                }
                write!(f, "/{member}")
            }
        }
    }
}
