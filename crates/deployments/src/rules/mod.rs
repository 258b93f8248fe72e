//! Deployments: the versions of an agent that serve, their channels, and how both may change
//! (OpenWOP agent-deployment, RFC 0082).
//!
//! All functions here are pure. A transition maps the deployments of an agent to the new
//! deployments and the events. `promotion` and the caller's scopes decide who may request
//! it and on what evidence.

mod approval_subject;
mod lifecycle;
mod request;
mod state;
mod traffic;
mod transition;

pub use approval_subject::Subject;
pub use lifecycle::{ChannelTraffic, Deployed, Lifecycle, Placement};
pub use request::parse;
pub use state::{InvalidTransition, next};
pub use touchstone_openwop::channel::{Channel, ChannelFault, LATEST, draw};
pub use traffic::NoActiveDeployment;
pub use transition::{ShareExceeded, TransitionError, TransitionRequest};
