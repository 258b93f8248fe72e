//! The two runs that a query names.

use touchstone_host::http::extract::is_run_id;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::ids::RunId;

/// Most ids of a query.
const MOST: usize = 24;

/// The ids in `runs`, which may appear several times and hold several ids each.
///
/// # Errors
/// `not_found` for an impossible id; `validation_error` for too many.
pub fn runs_of(query: Option<&str>) -> Result<Vec<RunId>, Problem> {
    let members = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let mut runs: Vec<RunId> = Vec::new();
    for (_, value) in members.filter(|(name, _)| name == "runs") {
        for id in value.split([',', ' ']).filter(|id| !id.is_empty()) {
            if !is_run_id(id) {
                return Err(Problem::new(ErrorCode::NotFound, "there is no such run"));
            }
            let run = RunId::from(id);
            if !runs.contains(&run) {
                runs.push(run);
            }
            if runs.len() > MOST {
                return Err(Problem::validation("runs", "choose two runs to compare"));
            }
        }
    }
    Ok(runs)
}

/// Whether a query has the address that pages link: one `runs` with two ids.
pub fn is_canonical(query: Option<&str>) -> bool {
    let members = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    members.filter(|(name, _)| name == "runs").count() == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("runs=run_a,run_b", &["run_a", "run_b"])]
    #[case("runs=run_a&runs=run_b&show=all", &["run_a", "run_b"])]
    #[case("runs=run_a%2Crun_a", &["run_a"])]
    #[case("runs=", &[])]
    #[case("", &[])]
    fn runs_are_named_in_one_list_or_in_several(#[case] query: &str, #[case] expected: &[&str]) {
        let found = runs_of(Some(query)).unwrap();
        let found: Vec<&str> = found.iter().map(RunId::as_str).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn impossible_ids_name_no_run() {
        let problem = runs_of(Some("runs=run_a,%3Cscript%3E")).unwrap_err();
        assert_eq!(problem.code, ErrorCode::NotFound);
    }
}
