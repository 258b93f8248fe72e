//! How many files this process may have open. Every connection is one, and so is every call to a model: clients that open
//! many connections must not leave the host without any for itself.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What is kept for the database and for what the host calls itself.
const MOST_KEPT: u64 = 1024;

/// Raises the limit as far as the system lets this process, and gives how many files it may have open then; `None`: any
/// number.
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

/// How many of `wanted` connections fit beside what the host opens itself.
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
    fn some_files_are_kept_for_the_host(
        #[case] files: Option<u64>,
        #[case] wanted: usize,
        #[case] fit: usize,
    ) {
        assert_eq!(connections(files, wanted), fit);
    }

    #[test]
    fn the_limit_is_as_high_as_it_may_be() {
        let files = raise();
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!((current, files), (maximum, maximum));
    }
}
