//! The machine: free disk, open files, memory.

use std::path::Path;

use crate::cli::doctor::finding::{Area, Finding};
use crate::config::Config;
use touchstone_host::render::words::bytes;
use touchstone_host::store::space::DiskSpace;
use touchstone_host::system::open_files;

/// A run of a large suite fits.
const LITTLE_DISK: u64 = 1 << 30;
/// Writes are about to fail.
const NO_DISK: u64 = 100 << 20;
/// The budgets for data in memory (ADR 27), and as much again for everything else.
const LITTLE_MEMORY: u64 = 512 << 20;

pub fn check(config: &Config, found: &mut Vec<Finding>) {
    disk(config, found);
    files(config, found);
    memory(found);
}

fn disk(config: &Config, found: &mut Vec<Finding>) {
    const AREA: Area = Area::Disk;
    // A folder that does not exist yet is created on the disk of the nearest one that does.
    let absolute = std::path::absolute(&config.data).unwrap_or_else(|_| config.data.clone());
    let existing = absolute.ancestors().find(|folder| folder.is_dir());
    // /proc and the like have no size, and no files of hosts.
    let Some(space) = existing.and_then(DiskSpace::at).filter(|it| it.total > 0) else {
        return;
    };
    let shown = config.data.display();
    let text = format!(
        "{} of {} are free on the disk of {shown}",
        bytes(space.free),
        bytes(space.total)
    );
    found.push(match space.free {
        0..NO_DISK => Finding::failure(AREA, text, remedy(&config.data)),
        NO_DISK..LITTLE_DISK => Finding::warning(AREA, text, remedy(&config.data)),
        _ => Finding::ok(AREA, text),
    });
}

fn remedy(data: &Path) -> String {
    format!(
        "free space on the disk of {}, or delete old runs with `retention.runs_days`",
        data.display()
    )
}

fn files(config: &Config, found: &mut Vec<Finding>) {
    const AREA: Area = Area::Limits;
    let wanted = config.limits.max_connections;
    let limit = open_files::raise();
    let fit = open_files::connections(limit, wanted);
    let shown = limit.map_or_else(|| "no limit of".to_owned(), |limit| limit.to_string());
    let text = format!("{shown} open files");
    found.push(if fit < wanted {
        let needed = wanted.saturating_mul(2).min(wanted.saturating_add(1024));
        Finding::warning(
            AREA,
            format!("{text}: enough for {fit} of {wanted} connections (`limits.max_connections`)"),
            format!("raise the limit with `ulimit -n {needed}` or, for a service, `LimitNOFILE={needed}`; or lower `limits.max_connections`"),
        )
    } else {
        Finding::ok(AREA, text)
    });
}

fn memory(found: &mut Vec<Finding>) {
    const AREA: Area = Area::Limits;
    let Some(available) = available() else { return };
    let text = format!("{} of memory are available", bytes(available));
    found.push(if available < LITTLE_MEMORY {
        Finding::warning(
            AREA,
            text,
            "give the host at least 512 MiB, or lower `limits.max_concurrency` and `worker.max_runs`",
        )
    } else {
        Finding::ok(AREA, text)
    });
}

/// Memory that this process could still use, on Linux: the least of the machine's and its control
/// group's.
fn available() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok()?;
    let machine = meminfo(&machine)?;
    let group = |name: &str| {
        let text = std::fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let group = group("memory.max").zip(group("memory.current"));
    let group = group.map(|(max, current)| max.saturating_sub(current));
    Some(group.map_or(machine, |group| group.min(machine)))
}

/// `MemAvailable` in bytes.
fn meminfo(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read_in_kibibytes() {
        let text = "MemTotal:       16 kB\nMemAvailable:   12 kB\nBuffers:  1 kB\n";
        assert_eq!(meminfo(text), Some(12 * 1024));
        for other in ["", "MemAvailable: 1 MB", "MemAvailable: x kB"] {
            assert_eq!(meminfo(other), None, "{other:?}");
        }
    }
}
