//! The limit of open files of this process. Every connection takes one, and so does every call to a
//! model: clients that open many connections must not use up the files that the host itself needs.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files reserved for the database and the host's own calls.
const MOST_KEPT: u64 = 1024;

/// Raises the limit to the maximum that the system permits and returns the new limit; `None`:
/// unlimited.
pub fn raise() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => maximum,
        Err(_) => current,
    }
}

/// How many of `wanted` connections fit next to the host's own files.
pub fn connections(files: Option<u64>, wanted: usize) -> usize {
    let Some(files) = files else {
        return wanted;
    };
    let kept = MOST_KEPT.min(files / 2);
    usize::try_from(files - kept).map_or(wanted, |fit| wanted.min(fit).max(1))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(None, 8192, 8192)]
    #[case(Some(524_288), 8192, 8192)]
    #[case(Some(1024), 8192, 512)]
    #[case(Some(4096), 8192, 3072)]
    #[case(Some(4096), 100, 100)]
    #[case(Some(0), 100, 1)]
    #[case(Some(u64::MAX), 100, 100)]
    fn connections_leave_open_files_for_the_host(
        #[case] files: Option<u64>,
        #[case] wanted: usize,
        #[case] fit: usize,
    ) {
        assert_eq!(connections(files, wanted), fit);
    }

    #[test]
    fn the_open_file_limit_is_raised_to_its_maximum() {
        let files = raise();
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!((current, files), (maximum, maximum));
    }
}
