//! The location of a URL in a card. Small, and formatted only when it is reported: a card of 1 MiB
//! has room for a hundred thousand URLs below a name of half a MiB.

use std::fmt;

use super::finding::pointer_token;

/// The location of a URL; displayed as a JSON Pointer (RFC 6901).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlPlace<'a> {
    /// A member of the card.
    Own(&'static str),
    /// An additional interface.
    Interface(usize),
    /// The provider.
    Provider,
    /// A member of a security scheme.
    Scheme {
        /// The scheme's name.
        scheme: &'a str,
        /// The member that wraps the scheme.
        wrapper: Option<&'static str>,
        /// The flow, if the URL is in one.
        flow: Option<&'a str>,
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
