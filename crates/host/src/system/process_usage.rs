//! The resources that this process uses, from `/proc` of Linux. Other systems do not have it.

/// What this process used when it was read.
#[derive(Clone, Copy, Debug)]
pub struct ProcessUsage {
    /// Processor time of all threads, in user and system mode.
    pub cpu_seconds: f64,
    /// Memory in RAM.
    pub resident_bytes: u64,
    /// Address space.
    pub virtual_bytes: u64,
    /// Open file descriptors.
    pub open_files: usize,
    /// Maximum number of open file descriptors; `None`: unlimited.
    pub max_files: Option<u64>,
    /// Start of the process in seconds since 1970.
    pub started: f64,
}

impl ProcessUsage {
    /// `None` if the system does not report it.
    #[cfg(target_os = "linux")]
    pub fn read() -> Option<Self> {
        use procfs::WithCurrentSystemInfo as _;
        use procfs::process::Process;
        use rustix::process::{Resource, getrlimit};

        let process = Process::myself().ok()?;
        let stat = process.stat().ok()?;
        let ticks_per_second = procfs::ticks_per_second() as f64;
        let booted = procfs::boot_time_secs().ok()? as f64;
        Some(Self {
            cpu_seconds: (stat.utime + stat.stime) as f64 / ticks_per_second,
            resident_bytes: stat.rss_bytes().get(),
            virtual_bytes: stat.vsize,
            open_files: process.fd_count().ok()?,
            max_files: getrlimit(Resource::Nofile).current,
            started: booted + stat.starttime as f64 / ticks_per_second,
        })
    }

    /// `None`: this system does not report it.
    #[cfg(not(target_os = "linux"))]
    pub const fn read() -> Option<Self> {
        None
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::ports::clock::Clock as _;
    use crate::system::SystemClock;

    #[test]
    fn the_usage_of_this_process_is_read() {
        let files: Vec<_> = (0..100).map(|_| tempfile::tempfile().unwrap()).collect();
        let usage = ProcessUsage::read().unwrap();
        assert!(usage.open_files > files.len(), "{usage:?}");
        assert!(usage.max_files.is_none_or(|most| most > 100), "{usage:?}");
        assert!(usage.resident_bytes > 1 << 20, "{usage:?}");
        assert!(usage.virtual_bytes >= usage.resident_bytes, "{usage:?}");
        assert!(usage.cpu_seconds >= 0.0, "{usage:?}");
        let now = SystemClock.now().as_second() as f64;
        assert!(
            usage.started > 0.0 && usage.started < now + 60.0,
            "{usage:?}"
        );
    }
}
