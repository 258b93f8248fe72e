//! Combines the observations of an agent's endpoint and its interfaces, and reports the findings.

use std::sync::Arc;

use super::availability::FAST_BELOW_MS;
use super::{
    Judgement, LiveRequests, NoReply, Observation, Plan, Probe, Tls, cors, fails_well, judge,
};
use crate::rules::finding::{Code, Finding, Findings};
use crate::rules::transport::Transport;

/// Observations of the endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Primary {
    pub judgement: Judgement,
    pub response_time_ms: Option<u64>,
    pub fast: bool,
    pub cors: bool,
    pub tls: bool,
    pub errors: bool,
}

impl Primary {
    pub fn of(plan: &Plan, requests: &LiveRequests, findings: &mut Findings) -> Self {
        let judgement = plan
            .transport
            .map_or_else(Judgement::default, |it| judge(it, &requests.message));
        let responds = judgement.responds;
        let elapsed = requests
            .message
            .outcome
            .as_ref()
            .ok()
            .map(|it| it.elapsed_ms);
        let response_time_ms = elapsed.filter(|_| responds);
        // gRPC has no preflight: pages use it through a proxy.
        let cors = match plan.transport {
            Some(Transport::Grpc) => judgement.works,
            _ => cors::passes(
                &requests.origin,
                &requests.preflight,
                &requests.message.outcome,
            ),
        };
        let errors = plan
            .transport
            .is_some_and(|it| fails_well(it, &requests.error));
        let primary = Self {
            judgement,
            response_time_ms,
            fast: response_time_ms.is_some_and(|it| it < FAST_BELOW_MS),
            cors: responds && cors,
            tls: requests.tls == Tls::Verified,
            errors: responds && errors,
        };
        primary.report(plan, requests, findings);
        primary
    }

    fn report(&self, plan: &Plan, requests: &LiveRequests, findings: &mut Findings) {
        let mut find = |code, message: String| findings.push(Finding::new(code, "/url", message));
        if let Some((code, message)) = tls_fault(requests.tls) {
            find(code, message.to_owned());
        }
        let Some(transport) = plan.transport else {
            find(
                Code::PreferredTransportFailed,
                "`preferredTransport` is not a transport of the protocol, so the endpoint could \
                not be tested; name `JSONRPC`, `GRPC` or `HTTP+JSON`."
                    .to_owned(),
            );
            return;
        };
        if !self.judgement.responds {
            let (code, message) = no_response(transport, requests);
            find(code, message);
            return;
        }
        if let Some(time) = self.response_time_ms.filter(|_| !self.fast) {
            find(
                Code::ResponseSlow,
                format!(
                    "The endpoint took {time} ms to answer; it should take less than {FAST_BELOW_MS} ms."
                ),
            );
        }
        if !self.cors {
            find(
                Code::CorsMissing,
                "Pages of other origins may not call the endpoint; answer the preflight and \
                allow the origin and `content-type`."
                    .to_owned(),
            );
        }
        if self.judgement.auth_required {
            find(
                Code::AuthRequired,
                "The endpoint requires credentials; test it with credentials.".to_owned(),
            );
        } else if !self.judgement.works {
            find(
                Code::PreferredTransportFailed,
                format!(
                    "The answer to a message does not conform to {transport}; check that `url` is \
                    the {transport} endpoint."
                ),
            );
        } else if !self.judgement.structured {
            find(
                Code::ResponseStructureInvalid,
                "The answer contains no complete message or task; return one as the \
                specification defines it."
                    .to_owned(),
            );
        }
        if !self.judgement.typed {
            find(
                Code::ContentTypeInvalid,
                format!("The answer's content type is not that of {transport}; correct it."),
            );
        }
        if !self.errors {
            find(
                Code::ErrorHandlingPoor,
                format!("A request that must fail did not get a {transport} error; return one."),
            );
        }
    }
}

fn tls_fault(tls: Tls) -> Option<(Code, &'static str)> {
    match tls {
        Tls::Absent => Some((
            Code::TlsAbsent,
            "The endpoint is not encrypted; serve it over https.",
        )),
        Tls::Invalid => Some((
            Code::TlsInvalid,
            "The endpoint's certificate was not accepted; use one that is current, issued for \
             this name, and from a known authority.",
        )),
        Tls::Verified | Tls::NotReached => None,
    }
}

/// Why a message to the endpoint got no response of its protocol.
fn no_response(transport: Transport, requests: &LiveRequests) -> (Code, String) {
    match &requests.message.outcome {
        Ok(reply) if reply.status >= 500 => (
            Code::EndpointServerError,
            format!(
                "The endpoint answered a plain message with {}; check its log.",
                reply.status
            ),
        ),
        Ok(_) => (
            Code::EndpointUnreachable,
            format!(
                "The server at the endpoint does not speak {transport}; correct \
                 `url` or `preferredTransport`."
            ),
        ),
        Err(NoReply::Refused) => (
            Code::AddressBlocked,
            "The endpoint's name resolves to an internal address and was not tested; \
             publish a public one, or allow its host and port."
                .to_owned(),
        ),
        Err(silence) => (
            Code::EndpointUnreachable,
            format!(
                "The endpoint could not be tested: {silence}. Check that it runs and \
                 can be reached."
            ),
        ),
    }
}

/// Observations of the additional interfaces.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Interfaces {
    pub working: u64,
    pub failed: u64,
}

impl Interfaces {
    pub fn of(plan: &Plan, seen: &Observation, findings: &mut Findings) -> Self {
        let mut find = |code, index: usize, message: String| {
            findings.push(Finding::new(
                code,
                format!("/additionalInterfaces/{index}"),
                message,
            ));
        };
        let mut tally = Self::default();
        // An interface that is listed several times is called and judged once.
        let mut judged: Vec<(&Arc<Probe>, bool)> = Vec::new();
        for interface in &plan.interfaces {
            let (index, transport) = (interface.index, interface.transport);
            let Some(probe) = seen.interfaces.get(&index) else {
                let message = "The interface was not tested, because the time ran out or the card \
                    has too many interfaces; list the important ones first."
                    .to_owned();
                find(Code::InterfaceNotTested, index, message);
                continue;
            };
            let known = judged.iter().find(|(it, _)| Arc::ptr_eq(it, probe));
            let works = known.map_or_else(|| judge(transport, probe).works, |(_, works)| *works);
            if known.is_none() {
                judged.push((probe, works));
            }
            if works {
                tally.working += 1;
                continue;
            }
            tally.failed += 1;
            let why = match &probe.outcome {
                Ok(_) => format!("its answer does not conform to {transport}"),
                Err(silence) => silence.to_string(),
            };
            let message = format!(
                "The {transport} interface failed: {why}. Repair it, or remove it from the card."
            );
            find(Code::InterfaceFailed, index, message);
        }
        for index in &plan.unknown {
            let message = "The interface was not tested, because its transport is unknown; name \
                a transport of the protocol.";
            find(Code::InterfaceNotTested, *index, message.to_owned());
        }
        tally
    }
}
