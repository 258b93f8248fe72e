//! A clean Debian root, made once and shared: every [`Root`] is a layer above it that is thrown away.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use tempfile::TempDir;

use super::{missing, succeed, tool};

/// What a minimal Debian installation has, and the dependencies of the package.
const PACKAGES: &str = "adduser,ca-certificates,init-system-helpers,libgcc-s1";

static BASE: LazyLock<PathBuf> = LazyLock::new(|| {
    let release =
        succeed(Command::new("sh").args(["-c", ". /etc/os-release; echo $VERSION_CODENAME"]));
    let release = release.trim();
    let cache = std::env::var_os("TOUCHSTONE_CACHE")
        .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    let base = cache.join(format!("debian-root-{release}"));
    fs::create_dir_all(&cache).unwrap();
    let lock = fs::File::create(cache.join("debian-root.lock")).unwrap();
    lock.lock().unwrap();
    if !base.exists() {
        let new = base.with_extension("new");
        let _absent = fs::remove_dir_all(&new);
        succeed(
            Command::new("debootstrap")
                .args([
                    "--variant=minbase",
                    &format!("--include={PACKAGES}"),
                    release,
                ])
                .arg(&new)
                .arg(mirror(release)),
        );
        fs::rename(&new, &base).unwrap();
    }
    base
});

/// Where the apt of this machine gets the packages of a release.
fn mirror(release: &str) -> String {
    let targets = succeed(Command::new("apt-get").args([
        "indextargets",
        "--format",
        "$(CODENAME) $(SITE)",
        "Created-By: Packages",
    ]));
    let mut sites = targets.lines().filter_map(|line| line.split_once(' '));
    let (_, site) = sites.find(|(codename, _)| *codename == release).unwrap();
    site.to_owned()
}

pub struct Root(TempDir);

impl Root {
    /// `None` after printing what is missing.
    pub fn new(what: &str) -> Option<Self> {
        for name in ["debootstrap", "apt-get", "ip", "unshare"] {
            tool(what, name)?;
        }
        if !is_root() {
            missing(what, "it needs root");
            return None;
        }
        LazyLock::force(&BASE);
        let root = Self(TempDir::new().unwrap());
        for folder in ["upper", "work", "root"] {
            fs::create_dir(root.0.path().join(folder)).unwrap();
        }
        Some(root)
    }

    /// What differs from a clean system.
    pub fn changes(&self) -> PathBuf {
        self.0.path().join("upper")
    }

    pub fn add(&self, file: &Path, name: &str) {
        fs::copy(file, self.changes().join(name)).unwrap();
    }

    /// The output of a shell script as root of this system, which must succeed.
    pub fn run(&self, script: &str) -> String {
        let script = format!(
            "cd {}\nmount -t overlay overlay -o lowerdir={},upperdir=upper,workdir=work root\n\
            mount -t proc proc root/proc\nexport DEBIAN_FRONTEND=noninteractive LC_ALL=C\n\
            exec chroot root sh -eu <<'SCRIPT'\n{script}\nSCRIPT",
            self.0.path().display(),
            BASE.display(),
        );
        succeed(&mut isolated(&script))
    }
}

/// A script with its own mounts, processes and loopback network, all of which end with it.
pub fn isolated(script: &str) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--pid", "--fork", "--kill-child", "--net"])
        .args(["sh", "-euc", &format!("ip link set lo up\n{script}")]);
    command
}

pub fn is_root() -> bool {
    succeed(Command::new("id").arg("-u")).trim() == "0"
}
