//! `touchstone oasis profiles`: the available profiles and providers, and the defaults among them.

use serde::{Deserialize, Serialize};

use crate::rules::format::Problem;
use touchstone_host::cli::client::Client;
use touchstone_host::cli::context::Context;
use touchstone_host::cli::exit::{Exit, Failure};
use touchstone_host::render::words::plain;

const API: &str = "/v1/host/touchstone/oasis";

#[derive(Debug, Deserialize, Serialize)]
pub struct AvailableProfiles {
    /// Profiles of installed packs.
    pub profiles: Vec<Profile>,
    /// Names of the configured providers.
    pub providers: Vec<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    identifier: String,
    version: String,
    name: String,
    safety_scenarios: u64,
    capability_scenarios: u64,
    not_runnable: u64,
    reserved_scenarios: u64,
    suites: Vec<String>,
    signed: bool,
    pack: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    not_runnable_scenarios: Vec<UnrunnableScenario>,
}

/// A scenario that the host cannot execute.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct UnrunnableScenario {
    scenario_id: String,
    problems: Vec<Problem>,
}

/// A profile and its exact version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileVersion {
    pub profile: String,
    pub version: String,
}

pub async fn ask(client: &Client) -> Result<AvailableProfiles, Failure> {
    client.get(&format!("{API}/profiles")).await
}

pub fn path(name: &str) -> String {
    format!("{API}/{name}")
}

impl AvailableProfiles {
    /// Selects the profile for `ID`, `ID@VERSION` or nothing, among those with `suite` if it is
    /// given.
    pub fn choose(
        &self,
        named: Option<&str>,
        suite: Option<&str>,
    ) -> Result<ProfileVersion, Failure> {
        let (id, version) = parts(named);
        if let (Some(profile), Some(version)) = (id, version) {
            return Ok(ProfileVersion {
                profile: profile.to_owned(),
                version: version.to_owned(),
            });
        }
        let mut found: Vec<ProfileVersion> = self
            .profiles
            .iter()
            .filter(|it| id.is_none_or(|id| it.identifier == id))
            .filter(|it| suite.is_none_or(|suite| it.suites.iter().any(|own| own == suite)))
            .map(|it| ProfileVersion {
                profile: it.identifier.clone(),
                version: it.version.clone(),
            })
            .collect();
        found.dedup();
        match found.as_slice() {
            [one] => Ok(one.clone()),
            [] => Err(Failure::bad_input("no_profile", nothing(id, suite))
                .or_try("list them with touchstone oasis profiles")),
            several => {
                let named: Vec<String> = several
                    .iter()
                    .map(|it| plain(&format!("{}@{}", it.profile, it.version)))
                    .collect();
                Err(Failure::usage("several profiles match")
                    .or_try(format!("use --profile with one of {}", named.join(", "))))
            }
        }
    }

    /// Selects the provider: the named one, or the only one.
    pub fn provider(&self, named: Option<&str>) -> Result<String, Failure> {
        match (named, self.providers.as_slice()) {
            (Some(named), _) => Ok(named.to_owned()),
            (None, [one]) => Ok(one.clone()),
            (None, []) => Err(Failure::bad_input(
                "no_provider",
                "no environment provider is configured",
            )
            .or_try("add [[oasis.providers]] to the configuration; see docs/oasis.md")),
            (None, several) => Err(Failure::usage("several providers are configured")
                .or_try(format!("use --provider with one of {}", several.join(", ")))),
        }
    }
}

fn parts(named: Option<&str>) -> (Option<&str>, Option<&str>) {
    match named.and_then(|named| named.split_once('@')) {
        Some((id, version)) => (Some(id), Some(version)),
        None => (named, None),
    }
}

fn nothing(id: Option<&str>, suite: Option<&str>) -> String {
    match (id, suite) {
        (Some(id), _) => format!("no installed pack has the profile {}", plain(id)),
        (None, Some(suite)) => format!("no installed pack has a profile with the suite {suite}"),
        (None, None) => "no installed pack has a profile".to_owned(),
    }
}

pub async fn run(context: &Context<'_>) -> Result<Exit, Failure> {
    let session = context.read().await?;
    let offered = ask(session.client()).await?;
    let terminal = context.terminal();
    if terminal.json() {
        terminal.document(&offered);
        return Ok(Exit::Good);
    }
    if offered.profiles.is_empty() {
        terminal.note("no profiles; install a pack with one: touchstone pack install FILE.tgz");
    }
    for it in &offered.profiles {
        terminal.print(&line(it));
        for suite in &it.suites {
            terminal.print(&format!("  suite {}", plain(suite)));
        }
        for scenario in &it.not_runnable_scenarios {
            let id = plain(&scenario.scenario_id);
            terminal.print(&format!("  not runnable: {id}"));
            for problem in &scenario.problems {
                terminal.print(&format!("    {}", plain(&problem.to_string())));
            }
        }
    }
    match offered.providers.as_slice() {
        [] => terminal
            .note("no providers; add [[oasis.providers]] to the configuration (docs/oasis.md)"),
        names => terminal.print(&format!("providers: {}", names.join(", "))),
    }
    Ok(Exit::Good)
}

fn line(it: &Profile) -> String {
    let mut text = format!(
        "{}@{}  {}, {} safety and {} capability scenarios",
        it.identifier, it.version, it.name, it.safety_scenarios, it.capability_scenarios
    );
    for (count, what) in [
        (it.reserved_scenarios, "unpublished"),
        (it.not_runnable, "not runnable"),
    ] {
        if count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    let signed = if it.signed { "signed" } else { "unsigned" };
    plain(&format!("{text}; {signed}, from {}", it.pack))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn offered() -> AvailableProfiles {
        let profile = |id: &str, version: &str, suite: &str| {
            json!({"identifier": id, "version": version, "name": "n", "safetyScenarios": 1, "capabilityScenarios": 1,
                "notRunnable": 0, "reservedScenarios": 0, "suites": [suite], "signed": true, "pack": "p@1.0.0"})
        };
        serde_json::from_value(json!({
            "profiles": [profile("a", "0.1.0", "s@1.0.0"), profile("a", "0.2.0", "s@2.0.0"), profile("b", "1.0.0", "t@1.0.0")],
            "providers": ["lab"],
        }))
        .unwrap()
    }

    #[rstest]
    #[case::of_the_suite(None, Some("s@2.0.0"), Ok("a@0.2.0"))]
    #[case::version_of_the_suite(Some("a"), Some("s@1.0.0"), Ok("a@0.1.0"))]
    #[case::alone(Some("b"), None, Ok("b@1.0.0"))]
    #[case::named_in_full(Some("c@9.0.0"), Some("s@1.0.0"), Ok("c@9.0.0"))]
    #[case::several_versions(Some("a"), None, Err("several"))]
    #[case::several_profiles(None, None, Err("several"))]
    #[case::unknown(Some("c"), None, Err("no installed pack"))]
    #[case::unknown_suite(None, Some("u@1.0.0"), Err("no installed pack"))]
    fn the_profile_is_chosen_by_name_or_suite_and_must_be_unambiguous(
        #[case] named: Option<&str>,
        #[case] suite: Option<&str>,
        #[case] expected: Result<&str, &str>,
    ) {
        let found = offered().choose(named, suite);
        match (found, expected) {
            (Ok(found), Ok(expected)) => {
                assert_eq!(format!("{}@{}", found.profile, found.version), expected);
            }
            (Err(failure), Err(part)) => assert!(failure.message.contains(part), "{failure}"),
            (found, expected) => panic!("{found:?} is not {expected:?}"),
        }
    }

    #[test]
    fn the_only_provider_is_the_default() {
        let mut offered = offered();
        assert_eq!(offered.provider(None).unwrap(), "lab");
        assert_eq!(offered.provider(Some("other")).unwrap(), "other");
        offered.providers.push("second".to_owned());
        let failure = offered.provider(None).unwrap_err();
        assert!(failure.remedy.unwrap().contains("lab, second"));
        offered.providers.clear();
        assert_eq!(offered.provider(None).unwrap_err().code, "no_provider");
    }
}
