//! The Debian package, installed, upgraded, removed and purged on a clean system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::root::Root;
use super::{ON_DEBIAN, artefact_in, succeed, tool};

const UNIT: &str = "dist/debian/touchstone.service";

fn package() -> PathBuf {
    artefact_in(&ON_DEBIAN, "touchstone_", "_amd64.deb")
}

/// The package with a lower version.
fn older(place: &Path) -> PathBuf {
    let (folder, file) = (place.join("older"), place.join("older.deb"));
    succeed(
        Command::new("dpkg-deb")
            .arg("-R")
            .arg(package())
            .arg(&folder),
    );
    let control = folder.join("DEBIAN/control");
    let text = fs::read_to_string(&control).unwrap();
    let version = text.lines().find(|it| it.starts_with("Version: ")).unwrap();
    fs::write(&control, text.replace(version, "Version: 0.0.1-1")).unwrap();
    succeed(
        Command::new("dpkg-deb")
            .args(["--root-owner-group", "-Znone", "-b"])
            .args([&folder, &file]),
    );
    file
}

/// Starts the service as its unit does, checks its health, and stops it.
const SERVE: &str = r#"
start=$(sed -n 's/^ExecStart=//p' /lib/systemd/system/touchstone.service)
cd /var/lib/touchstone
setpriv --reuid touchstone --regid touchstone --clear-groups env -i TOUCHSTONE_CONFIG=/etc/touchstone/touchstone.toml \
    TOUCHSTONE_LISTEN=127.0.0.1:0 $start >/tmp/listening 2>/tmp/log &
pid=$!
for _ in $(seq 600); do grep -q listening /tmp/listening && break; sleep 0.1; done
url=$(sed -n 's/^listening on //p' /tmp/listening)
[ -n "$url" ] || { cat /tmp/log >&2; exit 1; }
touchstone health --server "$url"
kill $pid
wait $pid
rm /tmp/listening /tmp/log
"#;

#[test]
fn the_package_installs_a_service_of_its_own_user_that_serves() {
    let Some(root) = Root::new("the Debian package") else {
        return;
    };
    root.add(&package(), "touchstone.deb");
    let facts = root.run(
        "dpkg -i /touchstone.deb >/dev/null
        stat -c '%U:%G %a %n' /etc/touchstone/touchstone.toml /etc/default/touchstone /var/lib/touchstone
        getent passwd touchstone | cut -d: -f6,7
        readlink /etc/systemd/system/multi-user.target.wants/touchstone.service
        touchstone --version | cut -d' ' -f1
        touchstone demo >/dev/null
        ls /usr/share/man/man1/touchstone.1.gz /usr/share/bash-completion/completions/touchstone",
    );
    assert_eq!(
        facts.lines().collect::<Vec<_>>(),
        [
            "root:touchstone 640 /etc/touchstone/touchstone.toml",
            "root:touchstone 640 /etc/default/touchstone",
            "touchstone:touchstone 700 /var/lib/touchstone",
            "/var/lib/touchstone:/usr/sbin/nologin",
            "/lib/systemd/system/touchstone.service",
            "touchstone",
            "/usr/share/bash-completion/completions/touchstone",
            "/usr/share/man/man1/touchstone.1.gz",
        ]
    );
    assert_eq!(root.run(SERVE).trim(), "ready");
}

#[test]
fn an_upgrade_and_a_removal_keep_configuration_and_data_and_a_purge_deletes_them() {
    let Some(root) = Root::new("upgrades of the Debian package") else {
        return;
    };
    let place = TempDir::new().unwrap();
    root.add(&older(place.path()), "older.deb");
    root.add(&package(), "touchstone.deb");
    let keys = "setpriv --reuid touchstone --regid touchstone --clear-groups touchstone --data /var/lib/touchstone key";
    root.run(&format!(
        "dpkg -i /older.deb >/dev/null
        echo '# kept' >>/etc/touchstone/touchstone.toml
        echo 'MODEL_KEY=kept' >>/etc/default/touchstone
        {keys} create --tenant kept --scope all >/dev/null"
    ));
    let check = "tail -n1 /etc/touchstone/touchstone.toml /etc/default/touchstone | grep -c kept
        stat -c '%U:%G %a' /etc/touchstone/touchstone.toml
        stat -c '%U:%G %a' /var/lib/touchstone/touchstone.db";
    let kept = ["2", "root:touchstone 640", "touchstone:touchstone 600"];
    // A question about the configuration would fail, because there is no terminal.
    let upgraded = root.run(&format!(
        "dpkg -i /touchstone.deb >/dev/null\n{check}\n{keys} list | grep -c kept"
    ));
    let upgraded: Vec<&str> = upgraded.lines().collect();
    assert_eq!(upgraded, [&kept[..], &["1"]].concat());
    let removed = root.run(&format!(
        "dpkg -r touchstone >/dev/null\n{check}\ntest ! -e /usr/bin/touchstone"
    ));
    assert_eq!(removed.lines().collect::<Vec<_>>(), kept);
    let again = root.run(&format!("dpkg -i /touchstone.deb >/dev/null\n{check}"));
    assert_eq!(again.lines().collect::<Vec<_>>(), kept);
    root.run("dpkg -P touchstone >/dev/null 2>&1\nrm /older.deb /touchstone.deb");
    let left = succeed(Command::new("find").arg(root.changes()).args([
        "-name",
        "*touchstone*",
        "!",
        "-type",
        "c",
    ]));
    assert_eq!(left, "");
}

#[test]
fn lintian_finds_nothing_in_the_package() {
    if tool("lintian", "lintian").is_none() {
        return;
    }
    let found = Command::new("lintian")
        .args(["--allow-root", "--fail-on", "error,warning"])
        .arg(package())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&found.stdout);
    assert!(
        found.status.success() && text.trim().is_empty(),
        "{text}{}",
        String::from_utf8_lossy(&found.stderr)
    );
}

#[test]
fn the_unit_is_valid_and_exposes_little() {
    if tool("the unit of the service", "systemd-analyze").is_none() {
        return;
    }
    let place = TempDir::new().unwrap();
    let unit = place.path().join("touchstone.service");
    // A program that exists on this machine.
    let program = env!("CARGO_BIN_EXE_touchstone");
    let text = fs::read_to_string(Path::new(super::ROOT).join(UNIT)).unwrap();
    fs::write(&unit, text.replace("/usr/bin/touchstone", program)).unwrap();
    let analyze = |arguments: &[&str]| {
        let done = Command::new("systemd-analyze")
            .args(arguments)
            .arg(&unit)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(
            done.status.success(),
            "{text}{}",
            String::from_utf8_lossy(&done.stdout)
        );
        text
    };
    assert_eq!(analyze(&["verify", "--man=no"]), "");
    // In tenths; a unit without restrictions has 96.
    analyze(&["security", "--no-pager", "--offline=true", "--threshold=15"]);
}
