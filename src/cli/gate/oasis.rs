//! `touchstone gate set --oasis`: gate conditions on an OASIS evaluation.

use clap::Args;

use touchstone_host::render::words::plain;
use touchstone_oasis::gate::OasisPolicy;

#[derive(Debug, Args)]
pub struct PassConditions {
    /// Require a safety PASS with this OASIS profile
    #[arg(long, value_name = "PROFILE", requires = "oasis_tier")]
    oasis: Option<String>,
    /// Minimum complexity tier of the evaluation, 1 to 3
    #[arg(long, value_name = "TIER", requires = "oasis", value_parser = clap::value_parser!(u8).range(1..=3))]
    oasis_tier: Option<u8>,
    /// Required version of the profile [default: any]
    #[arg(long, value_name = "VERSION", requires = "oasis")]
    oasis_profile_version: Option<String>,
    /// Required provider, by its name in the host's configuration [default: any]
    #[arg(long, value_name = "NAME", requires = "oasis")]
    oasis_provider: Option<String>,
    /// Maximum age of the evaluation in days, from its end
    #[arg(long, value_name = "DAYS", requires = "oasis")]
    oasis_max_age_days: Option<u32>,
    /// Maximum tolerance of any scenario in percent
    #[arg(long, value_name = "PERCENT", requires = "oasis")]
    oasis_max_tolerance: Option<f64>,
    /// Accept an incomplete evaluation
    #[arg(long, requires = "oasis")]
    oasis_allow_incomplete: bool,
    /// Accept scenarios that passed only because the agent gave no answer
    #[arg(long, requires = "oasis")]
    oasis_allow_vacuous: bool,
    /// Accept scenarios whose tolerance the evaluator raised above the profile's
    #[arg(long, requires = "oasis")]
    oasis_allow_raised_tolerances: bool,
    /// Accept an evaluation in which a command, a remote agent, a script or a cassette acted as the
    /// pack's agent
    #[arg(long, requires = "oasis")]
    oasis_allow_substitute: bool,
    /// Accept a suite without a trusted signature
    #[arg(long, requires = "oasis")]
    oasis_allow_unsigned: bool,
}

impl PassConditions {
    /// The policy of these options; `None` without --oasis.
    pub fn policy(&self) -> Option<OasisPolicy> {
        let (profile, tier) = self.oasis.clone().zip(self.oasis_tier)?;
        Some(OasisPolicy {
            profile_version: self.oasis_profile_version.clone(),
            provider: self.oasis_provider.clone(),
            max_age_days: self.oasis_max_age_days,
            max_tolerance: self.oasis_max_tolerance,
            require_signed_suite: !self.oasis_allow_unsigned,
            require_complete: !self.oasis_allow_incomplete,
            allow_vacuous: self.oasis_allow_vacuous,
            allow_raised_tolerances: self.oasis_allow_raised_tolerances,
            allow_substitute: self.oasis_allow_substitute,
            ..OasisPolicy::of(profile, tier)
        })
    }
}

pub fn in_words(oasis: &OasisPolicy) -> String {
    let mut parts = vec![
        format!("an OASIS safety PASS by {}", plain(&oasis.profile)),
        format!("tier {} or higher", oasis.minimum_tier),
    ];
    if let Some(version) = &oasis.profile_version {
        parts.push(format!("version {} of the profile", plain(version)));
    }
    if let Some(provider) = &oasis.provider {
        parts.push(format!("by provider {}", plain(provider)));
    }
    if let Some(days) = oasis.max_age_days {
        parts.push(format!("not older than {days} days"));
    }
    if let Some(most) = oasis.max_tolerance {
        parts.push(format!("tolerances of {most} % at most"));
    }
    for (allowed, what) in [
        (!oasis.require_complete, "an incomplete evaluation"),
        (oasis.allow_vacuous, "passes without an answer"),
        (oasis.allow_raised_tolerances, "raised tolerances"),
        (oasis.allow_substitute, "a substitute for the agent"),
        (!oasis.require_signed_suite, "an unsigned suite"),
    ] {
        if allowed {
            parts.push(format!("{what} allowed"));
        }
    }
    parts.join(", ")
}
