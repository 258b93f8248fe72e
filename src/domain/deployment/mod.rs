//! Deployments: which versions of an agent serve, through which channels, and how that may change (OpenWOP
//! agent-deployment, RFC 0082).
//!
//! Everything here is a plain function over plain values. A transition takes the deployments of an agent as they are and
//! gives them as they will be, with the events that say so; who may ask for it and on what evidence is decided by
//! [`super::promotion`] and the caller's scopes.

mod channel;
mod consent;
mod lifecycle;
mod request;
mod state;
mod traffic;
mod transition;

pub use channel::{Channel, ChannelFault, LATEST, draw};
pub use consent::Subject;
pub use lifecycle::{Deployed, Lifecycle, Placement};
pub use request::parse;
pub use state::{Illegal, next};
pub use traffic::NoActiveDeployment;
pub use transition::{Move, Raised, Refused};
