//! Switches that break one call, or every call of a kind.

use std::str::FromStr;

use glob::Pattern;

/// Effects possible in every call.
const ANYWHERE: [&str; 5] = ["http-500", "http-503", "hang", "drop", "not-json"];
/// Effects of faults in an observation. Those from `relabelled` on are lies: the source claims to
/// be available. The last two give the truth in another form.
const OBSERVING: [&str; 20] = [
    "unreachable",
    "partial",
    "empty_window",
    "unknown-status",
    "no-evidence-source",
    "no-status",
    "silent-empty",
    "relabelled",
    "relocated",
    "renamed",
    "reparametered",
    "reordered",
    "invented",
    "as-before",
    "change-made-up",
    "undated",
    "outdated",
    "foredated",
    "newest-first",
    "terse",
];
pub const PLACES: [&str; 5] = [
    "provision",
    "inject-state",
    "state-snapshot",
    "observe",
    "teardown",
];

/// `WHERE:EFFECT[@key=value,…]`.
#[derive(Clone, Debug)]
pub struct Fault {
    place: String,
    effect: String,
    scenario: Option<Pattern>,
    observation: Option<String>,
    nth: Option<u32>,
    from: u32,
    seen: u32,
}

impl Fault {
    /// The effect of this fault on this call, if it applies.
    pub fn strikes(
        &mut self,
        place: &str,
        scenario: &str,
        observation: Option<&str>,
    ) -> Option<&str> {
        let meant = self.place == place
            && self.scenario.as_ref().is_none_or(|it| it.matches(scenario))
            && (self.observation.is_none() || self.observation.as_deref() == observation);
        if !meant {
            return None;
        }
        self.seen += 1;
        let now = match self.nth {
            Some(nth) => self.seen == nth,
            None => self.seen >= self.from,
        };
        now.then_some(self.effect.as_str())
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (head, keys) = text.split_once('@').unwrap_or((text, ""));
        let (place, effect) = head
            .split_once(':')
            .filter(|(place, _)| PLACES.contains(place))
            .ok_or_else(|| {
                format!(
                    "`{head}` is not WHERE:EFFECT; WHERE is one of {}",
                    PLACES.join(", ")
                )
            })?;
        let own: &[&str] = if place == "observe" {
            &OBSERVING
        } else {
            &["status-error"]
        };
        if !ANYWHERE.iter().chain(own).any(|it| *it == effect) {
            return Err(format!("`{effect}` cannot happen at `{place}`"));
        }
        let mut fault = Self {
            place: place.to_owned(),
            effect: effect.to_owned(),
            scenario: None,
            observation: None,
            nth: None,
            from: 1,
            seen: 0,
        };
        for key in keys.split(',').filter(|it| !it.is_empty()) {
            let number = |value: &str| {
                value
                    .parse()
                    .map_err(|_| format!("`{value}` is not a number"))
            };
            match key.split_once('=') {
                Some(("scenario", glob)) => {
                    fault.scenario = Some(Pattern::new(glob).map_err(|cause| cause.to_string())?);
                }
                Some(("type", kind)) => fault.observation = Some(kind.to_owned()),
                Some(("nth", value)) => fault.nth = Some(number(value)?),
                Some(("from", value)) => fault.from = number(value)?,
                _ => {
                    return Err(format!(
                        "`{key}` must be one of scenario=, type=, nth= and from="
                    ));
                }
            }
        }
        Ok(fault)
    }
}
