//! A network with prepared responses.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use jiff::Timestamp;
use touchstone_agent_cards::ports::prober::{Handshake, ProbeRequest, Probed, Prober};
use touchstone_agent_cards::rules::live::{Body, Headers, Outcome, Reply};
use touchstone_agent_cards::rules::signature::Keys;
use touchstone_agent_cards::service::Cards;
use touchstone_host::ports::clock::Clock;
use touchstone_host::system::SystemIds;
use url::Url;

use crate::agent_cards::fixture;

/// Answers requests from a list.
pub struct Written {
    answers: Mutex<VecDeque<Outcome>>,
    pub asked: Mutex<Vec<ProbeRequest>>,
}

#[async_trait]
impl Prober for Written {
    fn forbids(&self, _url: &Url) -> bool {
        false
    }

    async fn ask(&self, request: ProbeRequest) -> Probed {
        self.asked.lock().unwrap().push(request);
        Probed {
            outcome: self.answers.lock().unwrap().pop_front().unwrap(),
            handshake: Handshake::Done,
        }
    }
}

struct Then;

impl Clock for Then {
    fn now(&self) -> Timestamp {
        fixture::now()
    }

    fn uptime(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }
}

/// A network with these responses, and a scorer that uses it.
pub fn world(answers: Vec<Outcome>) -> (Arc<Written>, Cards) {
    let prober = Arc::new(Written {
        answers: Mutex::new(answers.into()),
        asked: Mutex::default(),
    });
    let cards = Cards::new(
        prober.clone(),
        Arc::new(Then),
        Arc::new(SystemIds),
        Keys::default(),
    );
    (prober, cards)
}

pub fn reply(status: u16, body: Body) -> Outcome {
    Ok(Reply {
        status,
        headers: Headers::default(),
        body,
        trailers: Headers::default(),
        elapsed_ms: 1,
    })
}
