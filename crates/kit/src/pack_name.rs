//! Pack names, pack versions and the namespaces that keys are granted.

use semver::Version;

/// The scopes of published names.
pub const SCOPES: [&str; 4] = ["core", "vendor", "community", "private"];

/// Maximum length of a name in bytes.
pub const MAX_NAME: usize = 256;

/// Whether a name has the form `<scope>.<org>.<…>` with the allowed letters.
///
/// `^(core|vendor|community|private)\.[a-z][a-z0-9_-]*(\.[a-z][a-zA-Z0-9_-]*)+$`
pub fn is_pack_name(name: &str) -> bool {
    let mut segments = name.split('.');
    let scope = segments.next().is_some_and(|scope| SCOPES.contains(&scope));
    let org = segments.next().is_some_and(|org| segment(org, false));
    let rest: Vec<&str> = segments.collect();
    scope
        && org
        && !rest.is_empty()
        && rest.iter().all(|s| segment(s, true))
        && name.len() <= MAX_NAME
}

fn segment(text: &str, capitals: bool) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|b| match b {
            b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => true,
            b'A'..=b'Z' => capitals,
            _ => false,
        })
}

/// Whether an agent id is the pack's name, a dot and one segment (RFC 0003 §B).
pub fn is_agent_of(agent_id: &str, pack_name: &str) -> bool {
    agent_id
        .strip_prefix(pack_name)
        .and_then(|rest| rest.strip_prefix('.'))
        .is_some_and(|last| segment(last, true))
}

/// A pack name and an exact version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackId {
    pub name: String,
    pub version: Version,
}

impl PackId {
    /// `None` unless the name and the version are well-formed.
    pub fn new(name: &str, version: &str) -> Option<Self> {
        let version = Version::parse(version).ok()?;
        is_pack_name(name).then(|| Self {
            name: name.to_owned(),
            version,
        })
    }

    /// Parses `name@version`.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, version) = text.split_once('@')?;
        Self::new(name, version)
    }
}

impl std::fmt::Display for PackId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.name, self.version)
    }
}

/// The pack names that a key may sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    /// All names, granted explicitly by the operator.
    Any,
    /// `a.b.*` covers every name that starts with `a.b.`; `a.b` covers only that name.
    These(Vec<String>),
}

impl Namespaces {
    pub fn cover(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::These(grants) => grants.iter().any(|grant| covers(grant, name)),
        }
    }
}

fn covers(grant: &str, name: &str) -> bool {
    match grant.strip_suffix(".*") {
        Some(space) => name
            .strip_prefix(space)
            .and_then(|rest| rest.strip_prefix('.'))
            .is_some_and(|rest| !space.is_empty() && !rest.is_empty()),
        None => grant == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("core.openwop.agents.support-triage", true)]
    #[case("community.a.b", true)]
    #[case("vendor.acme.camelCase_x", true)]
    #[case("local.acme.x", false)]
    #[case("core.openwop", false)]
    #[case("core.Openwop.x", false)]
    #[case("core.openwop..x", false)]
    #[case("core.openwop.9x", false)]
    #[case("core.openwop.../x", false)]
    #[case("core.openwop.x\n", false)]
    fn a_pack_name_has_a_scope_an_organisation_and_a_name(#[case] name: &str, #[case] sound: bool) {
        assert_eq!(is_pack_name(name), sound);
    }

    #[rstest]
    #[case("community.x.*", "community.x.pack", true)]
    #[case("community.x.*", "community.x", false)]
    #[case("community.x.*", "community.xy.pack", false)]
    #[case("community.x.pack.*", "community.x.packed", false)]
    #[case("community.x.pack", "community.x.pack", true)]
    #[case("community.x.pack", "community.x.pack.child", false)]
    #[case("*", "community.x.pack", false)]
    #[case(".*", "community.x.pack", false)]
    fn a_namespace_grant_covers_whole_segments(
        #[case] grant: &str,
        #[case] name: &str,
        #[case] covered: bool,
    ) {
        assert_eq!(
            Namespaces::These(vec![grant.to_owned()]).cover(name),
            covered
        );
    }

    #[rstest]
    #[case("community.x.pack.default", true)]
    #[case("community.x.pack.a.b", false)]
    #[case("community.x.pack", false)]
    #[case("community.x.packdefault", false)]
    #[case("core.openwop.agents.support-resolver.default", false)]
    fn an_agent_belongs_to_its_pack(#[case] agent: &str, #[case] own: bool) {
        assert_eq!(is_agent_of(agent, "community.x.pack"), own);
    }
}
