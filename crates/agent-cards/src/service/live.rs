//! Testing an agent live, within a minute: its endpoint by the preferred transport, a browser's
//! preflight, a request that has to fail, every further interface, and its provider's website.
//!
//! The test message is sent first and alone, because it is timed. If the certificate is not
//! accepted, all requests continue over a connection without verification: that separates a bad
//! certificate from an agent that is down.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _, stream};
use tokio::time::Instant;
use url::Url;

use crate::ports::prober::{Handshake, Method, ProbeRequest, Probed, Prober};
use crate::rules::live::{
    Endpoint, Interface, LiveRequests, NoReply, Observation, Plan, Probe, Reply, Tls, grpc,
    http_json, jsonrpc, site_answers, usable_url,
};
use crate::rules::transport::Transport;
use crate::service::fetch::follow;
use crate::service::{posted, request};
use touchstone_host::net::policy::Certificates;
use touchstone_host::net::policy::HttpVersion;
use touchstone_host::ports::ids::Ids;

/// Time limit of all requests together.
const WHOLE_RUN: Duration = Duration::from_secs(60);
const SITE_WITHIN: Duration = Duration::from_secs(5);
/// Bytes of a response that are read.
const MAX_ANSWER: usize = 1 << 20;
/// Bytes of a provider's page that are read.
const MAX_PAGE: usize = 64 << 10;
/// Interfaces that are tested concurrently.
const AT_ONCE: usize = 4;
/// Maximum number of interfaces tested per card, so that a card cannot direct requests at many
/// hosts.
const MAX_INTERFACES: usize = 32;
/// The `Origin` of the preflight.
const ORIGIN: &str = "https://touchstone.invalid";

pub async fn observe(
    prober: &dyn Prober,
    ids: &dyn Ids,
    plan: &Plan,
    legacy_path: bool,
) -> Observation {
    let examiner = Examiner {
        prober,
        ids,
        ends: Instant::now() + WHOLE_RUN,
    };
    let endpoint = examiner.endpoint(plan);
    let provider = async {
        match &plan.provider {
            Some(site) => Some(examiner.site(site).await),
            None => None,
        }
    };
    // The endpoint alone first: concurrent requests would count in its response time.
    let endpoint = endpoint.await;
    // If it fails, nothing else counts, so no other server is asked.
    let interfaces: &[Interface] = match &endpoint {
        Endpoint::Called(_) => &plan.interfaces,
        Endpoint::Unusable | Endpoint::Refused => &[],
    };
    let (interfaces, provider_reachable) = tokio::join!(examiner.others(interfaces), provider);
    Observation {
        endpoint,
        interfaces,
        provider_reachable,
        legacy_path,
    }
}

struct Examiner<'a> {
    prober: &'a dyn Prober,
    ids: &'a dyn Ids,
    ends: Instant,
}

impl Examiner<'_> {
    /// Sends one request within the remaining time.
    async fn ask(&self, mut request: ProbeRequest) -> Probed {
        let left = self.ends.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Probed {
                outcome: Err(NoReply::NotSent),
                handshake: Handshake::NotReached,
            };
        }
        request.within = request.within.min(left);
        request.headers.push(("origin", ORIGIN.to_owned()));
        self.prober.ask(request).await
    }

    async fn endpoint(&self, plan: &Plan) -> Endpoint {
        let Some(url) = &plan.endpoint else {
            return Endpoint::Unusable;
        };
        if self.prober.forbids(url) {
            return Endpoint::Refused;
        }
        let target = match plan.transport {
            Some(Transport::HttpJson) => http_json::message_url(url),
            _ => url.clone(),
        };
        let mut certificates = Certificates::Verified;
        let (mut message, mut handshake) = match plan.transport {
            Some(transport) => self.message(transport, url, certificates).await,
            // No message can be sent, but a TLS handshake is possible.
            None => {
                let probed = self.ask(preflight(&target, certificates)).await;
                if probed.outcome == Err(NoReply::Refused) {
                    return Endpoint::Refused;
                }
                (self.unsent(), probed.handshake)
            }
        };
        if let (Handshake::Refused, Some(transport)) = (handshake, plan.transport) {
            certificates = Certificates::Any;
            (message, _) = self.message(transport, url, certificates).await;
            handshake = Handshake::Refused;
        }
        // Name resolution shows only now that the host is internal.
        if message.outcome == Err(NoReply::Refused) {
            return Endpoint::Refused;
        }
        let tls = match handshake {
            Handshake::Absent => Tls::Absent,
            Handshake::Done => Tls::Verified,
            Handshake::Refused => Tls::Invalid,
            Handshake::NotReached => Tls::NotReached,
        };
        let nobody = matches!(
            message.outcome,
            Err(NoReply::NotSent | NoReply::Unusable | NoReply::Refused | NoReply::Unreachable)
        );
        let (preflight, error) = match plan.transport {
            Some(transport) if !nobody => {
                let preflight = async {
                    match transport {
                        // gRPC has none.
                        Transport::Grpc => Err(NoReply::NotSent),
                        _ => self.ask(preflight(&target, certificates)).await.outcome,
                    }
                };
                tokio::join!(preflight, self.failing(transport, url, certificates))
            }
            _ => (Err(NoReply::NotSent), self.unsent()),
        };
        Endpoint::Called(Box::new(LiveRequests {
            tls,
            message,
            origin: ORIGIN.to_owned(),
            preflight,
            error,
        }))
    }

    fn unsent(&self) -> Probe {
        Probe {
            request_id: self.ids.uuid().to_string(),
            outcome: Err(NoReply::NotSent),
        }
    }

    /// Sends the test message.
    async fn message(
        &self,
        transport: Transport,
        url: &Url,
        certificates: Certificates,
    ) -> (Probe, Handshake) {
        let (request_id, message_id) = (self.ids.uuid().to_string(), self.ids.uuid().to_string());
        let with = |request: ProbeRequest| ProbeRequest {
            certificates,
            ..request
        };
        let probed = match transport {
            Transport::JsonRpc => {
                let body = jsonrpc::message_request(&request_id, &message_id);
                self.ask(with(posted(url, &body, MAX_ANSWER))).await
            }
            Transport::HttpJson => {
                let target = http_json::message_url(url);
                let body = http_json::message_request(&message_id);
                let first = self.ask(with(posted(&target, &body, MAX_ANSWER))).await;
                let second = if http_json::wants_core_form(&first.outcome) {
                    let body = http_json::core_message_request(&message_id);
                    Some(self.ask(with(posted(&target, &body, MAX_ANSWER))).await)
                } else {
                    None
                };
                Probed {
                    outcome: http_json::counting(first.outcome, second.map(|it| it.outcome)),
                    handshake: first.handshake,
                }
            }
            Transport::Grpc => {
                let body = grpc::message_request(&message_id);
                self.ask(with(called(url, grpc::SEND_MESSAGE, body))).await
            }
        };
        let probe = Probe {
            request_id,
            outcome: probed.outcome,
        };
        (probe, probed.handshake)
    }

    /// Sends the request that has to fail.
    async fn failing(&self, transport: Transport, url: &Url, certificates: Certificates) -> Probe {
        let (request_id, task_id) = (self.ids.uuid().to_string(), self.ids.uuid().to_string());
        let request = match transport {
            Transport::JsonRpc => posted(url, &jsonrpc::failing_request(&request_id), MAX_ANSWER),
            Transport::HttpJson => ProbeRequest {
                headers: vec![("accept", "application/json".to_owned())],
                ..request(Method::Get, &http_json::task_url(url, &task_id), MAX_ANSWER)
            },
            Transport::Grpc => called(url, grpc::GET_TASK, grpc::task_request(&task_id)),
        };
        let asked = ProbeRequest {
            certificates,
            ..request
        };
        Probe {
            request_id,
            outcome: self.ask(asked).await.outcome,
        }
    }

    /// Sends the test message to a further interface; `None` if no time was left.
    async fn interface(&self, interface: &Interface) -> Option<Probe> {
        let Some(url) = &interface.url else {
            return Some(Probe {
                outcome: Err(NoReply::Unusable),
                ..self.unsent()
            });
        };
        let transport = interface.transport;
        let (mut probe, handshake) = self.message(transport, url, Certificates::Verified).await;
        if handshake == Handshake::Refused {
            (probe, _) = self.message(transport, url, Certificates::Any).await;
        }
        (probe.outcome != Err(NoReply::NotSent)).then_some(probe)
    }

    /// Sends the test message to further interfaces: once to each, however often the card lists it.
    async fn others(&self, interfaces: &[Interface]) -> BTreeMap<usize, Arc<Probe>> {
        let mut distinct: Vec<&Interface> = Vec::new();
        for interface in interfaces {
            let known = distinct.iter().any(|it| it.is_same(interface));
            if distinct.len() < MAX_INTERFACES && !known {
                distinct.push(interface);
            }
        }
        // Boxed: the compiler cannot see that a closure's futures of every lifetime are `Send`.
        let mut asked = Vec::new();
        for interface in distinct {
            let probe = self.interface(interface);
            asked.push(async move { (interface, probe.await.map(Arc::new)) }.boxed());
        }
        let probes: Vec<_> = stream::iter(asked).buffered(AT_ONCE).collect().await;
        let answered = |interface: &Interface| {
            let (_, probe) = probes.iter().find(|(it, _)| it.is_same(interface))?;
            Some((interface.index, probe.clone()?))
        };
        interfaces.iter().filter_map(answered).collect()
    }

    /// Whether the provider's website responds.
    async fn site(&self, site: &Url) -> bool {
        let ends = (Instant::now() + SITE_WITHIN).min(self.ends);
        let left = || ends.saturating_duration_since(Instant::now());
        let ask = |method| {
            follow(self.prober, method, site, MAX_PAGE, left(), |to| {
                usable_url(to.as_str()).is_some()
            })
        };
        let (head, _) = ask(Method::Head).await;
        let unknown = |reply: &Reply| matches!(reply.status, 405 | 501);
        if head.outcome.as_ref().is_ok_and(unknown) {
            let (get, _) = ask(Method::Get).await;
            return site_answers(&get.outcome);
        }
        site_answers(&head.outcome)
    }
}

/// The preflight a browser sends before the message.
fn preflight(url: &Url, certificates: Certificates) -> ProbeRequest {
    ProbeRequest {
        headers: vec![
            ("access-control-request-method", "POST".to_owned()),
            ("access-control-request-headers", "content-type".to_owned()),
        ],
        certificates,
        ..request(Method::Options, url, MAX_PAGE)
    }
}

/// A gRPC call.
fn called(interface: &Url, name: &str, body: Vec<u8>) -> ProbeRequest {
    ProbeRequest {
        headers: vec![
            ("content-type", "application/grpc".to_owned()),
            ("te", "trailers".to_owned()),
        ],
        body,
        http_version: HttpVersion::Http2,
        ..request(Method::Post, &grpc::method_url(interface, name), MAX_ANSWER)
    }
}
