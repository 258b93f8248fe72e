//! Which major answers a request (OpenWOP v2 versioning §1 and §5, headers).

use crate::wire::Major;
use crate::wire::operation::{DISCOVERY, is_operation};

/// What a host serves, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    pub majors: Majors,
    /// The oldest client that major 2 answers (`MAJOR.MINOR`). A client that does not name its
    /// version is answered.
    pub min_client: Option<(u32, u32)>,
}

/// The majors that a host serves, and where requests without a header go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Majors {
    /// Both, during the overlap. Major 1 is the preferred one.
    Both,
    /// Only major 2: the paths below `/v1` do not exist.
    V2,
}

impl Offered {
    /// These majors, for every client.
    pub const fn to_all(majors: Majors) -> Self {
        Self {
            majors,
            min_client: None,
        }
    }

    fn admits(self, client: Option<&[u8]>) -> bool {
        self.min_client.is_none_or(|it| !is_too_old(client, it))
    }
}

impl Majors {
    pub const fn list(self) -> &'static [Major] {
        match self {
            Self::Both => &[Major::V1, Major::V2],
            Self::V2 => &[Major::V2],
        }
    }

    /// The major that discovery answers with if the request names none.
    pub const fn preferred(self) -> Major {
        match self {
            Self::Both => Major::V1,
            Self::V2 => Major::V2,
        }
    }

    /// Whether an id in a URL may leave out its tenant.
    pub const fn admit_bare_ids(self) -> bool {
        matches!(self, Self::Both)
    }

    pub fn has(self, major: Major) -> bool {
        self.list().contains(&major)
    }

    /// The major of what a request of a major makes: its own, or the preferred one if the host does
    /// not serve it and the request came to the twin of an operation.
    pub fn of_made_under(self, major: Major) -> Major {
        match self.has(major) {
            true => major,
            false => self.preferred(),
        }
    }
}

/// Where a request belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selected {
    /// Not a path of the protocol: a page, a route of this host, or none at all.
    Outside,
    /// A path of the protocol under this major. The path is the one of major 1.
    Served(Major, String),
    /// A path of the protocol that is refused, in the form of this major.
    Refused(Major, Refusal),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The header names a major that the host does not serve.
    Unsupported,
    /// The path is one of major 1, and the header names another.
    Mismatch,
    /// The header is not `MAJOR` or `MAJOR.MINOR`.
    Malformed,
    /// The host does not serve major 1 any more.
    Retired,
    /// The client says that it is older than this version.
    ClientTooOld((u32, u32)),
}

/// Selects the major of a request.
///
/// `path` is the path as the client sent it. `versions` are the values of `OpenWOP-Version`: the
/// header may be missing; if it is there twice, both values must select the same major. `client` is
/// the value of `OpenWOP-Client-Version`: it never selects, and only major 2 may refuse it.
pub fn select<'a>(
    offered: Offered,
    path: &str,
    versions: impl IntoIterator<Item = &'a [u8]>,
    client: Option<&[u8]>,
) -> Selected {
    match (selected(offered.majors, path, versions), offered.min_client) {
        (Selected::Served(Major::V2, _), Some(least)) if !offered.admits(client) => {
            Selected::Refused(Major::V2, Refusal::ClientTooOld(least))
        }
        (selected, _) => selected,
    }
}

fn selected<'a>(
    offered: Majors,
    path: &str,
    versions: impl IntoIterator<Item = &'a [u8]>,
) -> Selected {
    let Some((space, path)) = place(path) else {
        return Selected::Outside;
    };
    if space == Space::V1 && !offered.has(Major::V1) {
        return Selected::Refused(Major::V2, Refusal::Retired);
    }
    let asked = match asked(versions) {
        Ok(asked) => asked,
        Err(refusal) => return Selected::Refused(space.default(offered), refusal),
    };
    match (space, asked) {
        (Space::V1, None | Some(Asked::Known(Major::V1))) => Selected::Served(Major::V1, path),
        (Space::V1, Some(_)) => Selected::Refused(Major::V1, Refusal::Mismatch),
        (Space::Unversioned | Space::Discovery, None) => {
            Selected::Served(space.default(offered), path)
        }
        (Space::Unversioned | Space::Discovery, Some(Asked::Known(major)))
            if offered.has(major) =>
        {
            Selected::Served(major, path)
        }
        (Space::Unversioned | Space::Discovery, Some(_)) => {
            Selected::Refused(Major::V2, Refusal::Unsupported)
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    V1,
    Unversioned,
    Discovery,
}

impl Space {
    /// The major of a request without a header.
    const fn default(self, offered: Majors) -> Major {
        match self {
            Self::V1 => Major::V1,
            Self::Unversioned => Major::V2,
            Self::Discovery => offered.preferred(),
        }
    }
}

/// The space of a path, and its form under major 1; `None` if the protocol does not have it.
///
/// The router has routes of its own with segments that begin with `~`. An id of major 2 may begin
/// so too, and must not reach them.
fn place(path: &str) -> Option<(Space, String)> {
    if path == DISCOVERY {
        return Some((Space::Discovery, path.to_owned()));
    }
    if let Some(rest) = path.strip_prefix("/v1")
        && is_operation(Major::V1, rest)
    {
        return Some((Space::V1, path.to_owned()));
    }
    let routed = || format!("/v1{}", path.replace("/~", "/%7E"));
    is_operation(Major::V2, path).then(|| (Space::Unversioned, routed()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Known(Major),
    Unknown,
}

fn asked<'a>(versions: impl IntoIterator<Item = &'a [u8]>) -> Result<Option<Asked>, Refusal> {
    let mut found = None;
    for version in versions {
        let asked = read(version).ok_or(Refusal::Malformed)?;
        if found.is_some_and(|it| it != asked) {
            return Err(Refusal::Malformed);
        }
        found = Some(asked);
    }
    Ok(found)
}

/// The major of `2` or `2.14`: only it selects, the minor is information.
fn read(version: &[u8]) -> Option<Asked> {
    let version = str::from_utf8(version).ok()?.trim();
    let (major, minor) = match version.split_once('.') {
        Some((major, minor)) => (major, Some(minor)),
        None => (version, None),
    };
    number(major)?;
    if let Some(minor) = minor {
        number(minor)?;
    }
    Some(match major {
        "1" => Asked::Known(Major::V1),
        "2" => Asked::Known(Major::V2),
        _ => Asked::Unknown,
    })
}

/// A number without a sign and without leading zeros.
fn number(text: &str) -> Option<u32> {
    let is_plain = text.bytes().all(|it| it.is_ascii_digit());
    let is_canonical = text == "0" || !text.starts_with('0');
    (is_plain && is_canonical).then(|| text.parse().ok())?
}

/// `MAJOR.MINOR` of clients.
pub fn client_version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((number(major)?, number(minor)?))
}

/// Whether a client that says this of itself is older than `least`. A version that cannot be read
/// is like none, and the patch number does not count.
fn is_too_old(client: Option<&[u8]>, least: (u32, u32)) -> bool {
    let read = || {
        let mut numbers = str::from_utf8(client?).ok()?.trim().split('.').map(number);
        let (major, minor) = (numbers.next()??, numbers.next()??);
        let is_patch = numbers.next().is_none_or(|it| it.is_some());
        (is_patch && numbers.next().is_none()).then_some((major, minor))
    };
    read().is_some_and(|it| it < least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const V1: Major = Major::V1;
    const V2: Major = Major::V2;

    fn served(major: Major, path: &str) -> Selected {
        Selected::Served(major, path.to_owned())
    }

    fn of(majors: Majors, path: &str, version: &str) -> Selected {
        let version = (version != "-").then_some(version.as_bytes());
        select(Offered::to_all(majors), path, version, None)
    }

    #[rstest]
    // An unversioned path is one of major 2 unless the header says otherwise.
    #[case("/runs", "-", served(V2, "/v1/runs"))]
    #[case("/runs", "2", served(V2, "/v1/runs"))]
    #[case("/runs", "2.0", served(V2, "/v1/runs"))]
    #[case("/runs", "2.99", served(V2, "/v1/runs"))]
    #[case("/runs", "1", served(V1, "/v1/runs"))]
    #[case("/runs", "1.0", served(V1, "/v1/runs"))]
    #[case("/runs", "3", Selected::Refused(V2, Refusal::Unsupported))]
    #[case("/runs", "0", Selected::Refused(V2, Refusal::Unsupported))]
    #[case("/runs", "", Selected::Refused(V2, Refusal::Malformed))]
    #[case("/runs", "two", Selected::Refused(V2, Refusal::Malformed))]
    #[case("/runs", "2.", Selected::Refused(V2, Refusal::Malformed))]
    #[case("/runs", "2.0.0", Selected::Refused(V2, Refusal::Malformed))]
    #[case("/runs", "v2", Selected::Refused(V2, Refusal::Malformed))]
    #[case("/runs", "02", Selected::Refused(V2, Refusal::Malformed))]
    #[case(
        "/runs/acme~2Frun_1:fork",
        "2",
        served(V2, "/v1/runs/acme~2Frun_1:fork")
    )]
    #[case("/runs/~fork", "2", served(V2, "/v1/runs/%7Efork"))]
    #[case("/v1/runs/~fork", "-", served(V1, "/v1/runs/~fork"))]
    // A path below /v1 is one of major 1.
    #[case("/v1/runs", "-", served(V1, "/v1/runs"))]
    #[case("/v1/runs", "1.7", served(V1, "/v1/runs"))]
    #[case("/v1/runs", "2", Selected::Refused(V1, Refusal::Mismatch))]
    #[case("/v1/runs", "9", Selected::Refused(V1, Refusal::Mismatch))]
    #[case("/v1/runs", "x", Selected::Refused(V1, Refusal::Malformed))]
    #[case("/v1/runs:bulk-cancel", "-", served(V1, "/v1/runs:bulk-cancel"))]
    // Discovery is the document of the preferred major.
    #[case("/.well-known/openwop", "-", served(V1, "/.well-known/openwop"))]
    #[case("/.well-known/openwop", "2", served(V2, "/.well-known/openwop"))]
    #[case("/.well-known/openwop", "1", served(V1, "/.well-known/openwop"))]
    #[case(
        "/.well-known/openwop",
        "7",
        Selected::Refused(V2, Refusal::Unsupported)
    )]
    #[case("/.well-known/openwop", "x", Selected::Refused(V1, Refusal::Malformed))]
    // There is no space of major 2, and routes of this host have no major.
    #[case("/v2/runs", "2", Selected::Outside)]
    #[case("/v1/v1/runs", "-", Selected::Outside)]
    #[case("/v1/host/touchstone/runs", "9", Selected::Outside)]
    #[case("/host/touchstone/runs", "2", Selected::Outside)]
    #[case("/v1/packs/a/-/1.0.0.tgz", "2", Selected::Outside)]
    #[case("/console/runs", "2", Selected::Outside)]
    #[case("/", "2", Selected::Outside)]
    fn both_majors_are_served(
        #[case] path: &str,
        #[case] version: &str,
        #[case] expected: Selected,
    ) {
        assert_eq!(of(Majors::Both, path, version), expected);
    }

    #[rstest]
    #[case("/v1/runs", "-", Selected::Refused(V2, Refusal::Retired))]
    #[case("/v1/runs", "1", Selected::Refused(V2, Refusal::Retired))]
    #[case("/v1/runs", "x", Selected::Refused(V2, Refusal::Retired))]
    #[case("/runs", "1", Selected::Refused(V2, Refusal::Unsupported))]
    #[case("/runs", "-", served(V2, "/v1/runs"))]
    #[case("/.well-known/openwop", "-", served(V2, "/.well-known/openwop"))]
    fn a_host_without_major_1_refuses_its_paths(
        #[case] path: &str,
        #[case] version: &str,
        #[case] expected: Selected,
    ) {
        assert_eq!(of(Majors::V2, path, version), expected);
    }

    #[test]
    fn what_a_request_makes_has_a_major_that_the_host_serves() {
        assert_eq!(Majors::Both.of_made_under(V1), V1);
        assert_eq!(Majors::Both.of_made_under(V2), V2);
        assert_eq!(Majors::V2.of_made_under(V1), V2);
    }

    #[test]
    fn a_repeated_header_must_agree() {
        let both = |first: &'static str, second: &'static str| {
            select(
                Offered::to_all(Majors::Both),
                "/runs",
                [first.as_bytes(), second.as_bytes()],
                None,
            )
        };
        assert_eq!(both("2", "2.1"), served(V2, "/v1/runs"));
        let refused = Selected::Refused(V2, Refusal::Malformed);
        assert_eq!(both("2", "1"), refused);
        let all = Offered::to_all(Majors::Both);
        assert_eq!(select(all, "/runs", [&b"\xff"[..]], None), refused);
    }

    #[rstest]
    #[case("2.46.32", false)]
    #[case("2.10", false)]
    #[case("2.9.99", true)]
    #[case("1.8.0", true)]
    #[case("2", false)]
    #[case("2.x", false)]
    #[case("01.2", false)]
    #[case("+1.2", false)]
    #[case("-1.0", false)]
    #[case("2.4.32-rc.1", false)]
    #[case("1.2.3.4", false)]
    #[case("", false)]
    fn only_a_readable_version_is_too_old(#[case] version: &str, #[case] expected: bool) {
        assert_eq!(is_too_old(Some(version.as_bytes()), (2, 10)), expected);
        assert!(!is_too_old(None, (2, 10)));
    }

    #[rstest]
    #[case("2.40", Some((2, 40)))]
    #[case("2", None)]
    #[case("2.40.1", None)]
    #[case("2.04", None)]
    #[case("", None)]
    fn the_version_of_clients_has_two_numbers(
        #[case] text: &str,
        #[case] expected: Option<(u32, u32)>,
    ) {
        assert_eq!(client_version(text), expected);
    }

    #[rstest]
    #[case("/runs", "2", "1.9", Selected::Refused(V2, Refusal::ClientTooOld((2, 10))))]
    #[case("/.well-known/openwop", "2", "1.9", Selected::Refused(V2, Refusal::ClientTooOld((2, 10))))]
    #[case("/runs", "2", "2.10", served(V2, "/v1/runs"))]
    #[case("/runs", "1", "1.9", served(V1, "/v1/runs"))]
    #[case("/.well-known/openwop", "1", "1.9", served(V1, "/.well-known/openwop"))]
    #[case("/v1/runs", "1", "1.9", served(V1, "/v1/runs"))]
    #[case("/runs", "9", "1.9", Selected::Refused(V2, Refusal::Unsupported))]
    #[case("/healthz", "2", "1.9", Selected::Outside)]
    fn only_major_2_refuses_old_clients(
        #[case] path: &str,
        #[case] version: &str,
        #[case] client: &str,
        #[case] expected: Selected,
    ) {
        let offered = Offered {
            majors: Majors::Both,
            min_client: Some((2, 10)),
        };
        let found = select(offered, path, [version.as_bytes()], Some(client.as_bytes()));
        assert_eq!(found, expected);
    }
}
