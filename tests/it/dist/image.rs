//! The container image: read by the tools of the OCI, and started as a container engine starts it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::root::{is_root, isolated};
use super::{ON_DEBIAN, ROOT, artefact_in, build, missing, succeed, tool};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The archive, or `None` after printing what is missing to build it.
fn archive() -> Option<PathBuf> {
    tool("the container image", "apt-get")?;
    Some(artefact_in(&ON_DEBIAN, "touchstone-", "-oci.tar"))
}

/// The unpacked layout.
fn layout(archive: &Path) -> TempDir {
    let place = TempDir::new().unwrap();
    succeed(
        Command::new("tar")
            .arg("-xf")
            .arg(archive)
            .arg("-C")
            .arg(place.path()),
    );
    place
}

fn document(layout: &Path, path: &str) -> Value {
    serde_json::from_slice(&fs::read(layout.join(path)).unwrap()).unwrap()
}

/// The path of the content that a descriptor names, whose digest and size must be right.
fn blob(layout: &Path, descriptor: &Value) -> String {
    let digest = descriptor["digest"]
        .as_str()
        .unwrap()
        .strip_prefix("sha256:")
        .unwrap();
    let path = format!("blobs/sha256/{digest}");
    let file = layout.join(&path);
    assert_eq!(descriptor["size"], fs::metadata(&file).unwrap().len());
    let sum = succeed(Command::new("sha256sum").arg(&file));
    assert_eq!(&sum[..64], digest);
    path
}

fn manifest(layout: &Path) -> Value {
    document(
        layout,
        &blob(layout, &document(layout, "index.json")["manifests"][0]),
    )
}

fn config(layout: &Path) -> Value {
    document(layout, &blob(layout, &manifest(layout)["config"]))
}

#[test]
fn the_layout_holds_what_its_descriptors_name_and_nothing_else() {
    let Some(archive) = archive() else {
        return;
    };
    let place = layout(&archive);
    let layout = place.path();
    assert_eq!(
        document(layout, "oci-layout"),
        json!({"imageLayoutVersion": "1.0.0"})
    );
    let (manifest, config) = (manifest(layout), config(layout));
    let layers = manifest["layers"].as_array().unwrap();
    let paths: Vec<String> = layers.iter().map(|layer| blob(layout, layer)).collect();
    // The diff ids are digests of the layers without compression.
    for (path, id) in paths
        .iter()
        .zip(config["rootfs"]["diff_ids"].as_array().unwrap())
    {
        let script = format!("gzip -dc {} | sha256sum", layout.join(path).display());
        let sum = succeed(Command::new("sh").args(["-c", &script]));
        assert_eq!(format!("sha256:{}", &sum[..64]), id.as_str().unwrap());
    }
    assert_eq!(config["history"].as_array().unwrap().len(), layers.len());
    // `docker load` of old versions reads this file instead.
    let docker = &document(layout, "manifest.json")[0];
    assert_eq!(docker["Layers"], json!(paths));
    assert_eq!(docker["RepoTags"], json!([format!("touchstone:{VERSION}")]));
    let blobs = fs::read_dir(layout.join("blobs/sha256")).unwrap().count();
    assert_eq!(blobs, layers.len() + 2);
}

#[test]
fn the_same_program_gives_the_same_image() {
    let Some(archive) = archive() else {
        return;
    };
    let again = TempDir::new().unwrap();
    succeed(&mut build("image", again.path()));
    succeed(
        Command::new("cmp")
            .arg(&archive)
            .arg(again.path().join(archive.file_name().unwrap())),
    );
}

#[test]
fn skopeo_and_umoci_read_the_image() {
    let Some(archive) = archive() else {
        return;
    };
    if tool("the image in skopeo", "skopeo").is_none()
        || tool("the image in umoci", "umoci").is_none()
    {
        return;
    }
    let name = format!("oci-archive:{}", archive.display());
    let inspected = succeed(Command::new("skopeo").args(["inspect", &name]));
    let inspected: Value = serde_json::from_str(&inspected).unwrap();
    assert_eq!(
        inspected["Labels"]["org.opencontainers.image.version"],
        VERSION
    );
    // What a container engine stores, after checking every digest.
    let copy = TempDir::new().unwrap();
    let to = format!("dir:{}", copy.path().display());
    succeed(Command::new("skopeo").args(["copy", "--insecure-policy", &name, &to]));
    let layout = layout(&archive);
    let image = format!("{}:{VERSION}", layout.path().display());
    let history = succeed(Command::new("umoci").args(["stat", "--json", "--image", &image]));
    let history: Value = serde_json::from_str(&history).unwrap();
    assert_eq!(history["history"].as_array().unwrap().len(), 2);
}

#[test]
fn a_container_serves_as_its_own_user_on_a_read_only_file_system() {
    let what = "the image as a container";
    let Some(archive) = archive() else {
        return;
    };
    if !is_root() {
        missing(what, "it needs root");
        return;
    }
    for program in ["ip", "setpriv"] {
        if tool(what, program).is_none() {
            return;
        }
    }
    let layout = layout(&archive);
    let place = TempDir::new().unwrap();
    let rootfs = place.path().join("rootfs");
    fs::create_dir(&rootfs).unwrap();
    for layer in manifest(layout.path())["layers"].as_array().unwrap() {
        succeed(
            Command::new("tar")
                .args([
                    "--extract",
                    "--gzip",
                    "--numeric-owner",
                    "--same-permissions",
                    "--file",
                ])
                .arg(layout.path().join(blob(layout.path(), layer)))
                .arg("--directory")
                .arg(&rootfs),
        );
    }
    for file in [
        "bash-completion/completions/touchstone",
        "man/man1/touchstone.1",
    ] {
        assert!(rootfs.join("usr/share").join(file).is_file(), "{file}");
    }
    let config = &config(layout.path())["config"];
    assert_eq!(config["User"], "10001:10001");
    let words = |member: &Value| -> Vec<String> {
        let words = member.as_array().unwrap().iter();
        words
            .map(|word| word.as_str().unwrap().to_owned())
            .collect()
    };
    let (environment, program) = (
        words(&config["Env"]).join(" "),
        words(&config["Entrypoint"]).join(" "),
    );
    let serve = words(&config["Cmd"]).join(" ");
    let health = words(&config["Healthcheck"]["Test"]).split_off(1).join(" ");
    // As an engine starts it: the root is read-only except for the volume and /tmp, and the user has
    // no capabilities.
    let run = format!(
        "env -i {environment} /usr/bin/setpriv --no-new-privs /usr/sbin/chroot --userspec=10001:10001 \
        --groups=10001 rootfs"
    );
    let script = format!(
        r#"cd {place}
stat -c '%u:%g %a' rootfs/var/lib/touchstone
cp -a rootfs/var/lib/touchstone volume
mount --bind rootfs rootfs
mount -o remount,bind,ro rootfs
mount --bind volume rootfs/var/lib/touchstone
mount -t tmpfs -o mode=1777 tmpfs rootfs/tmp
{run} {program} key create --tenant default --scope all >key 2>errors || {{ cat errors >&2; exit 1; }}
{run} {program} demo >/dev/null
{run} {program} {serve} >listening 2>log &
pid=$!
for _ in $(seq 600); do grep -q listening listening && break; sleep 0.1; done
cat listening
{run} {health}
{run} {program} --server http://127.0.0.1:7800 --key "$(cat key)" run list >/dev/null
kill $pid
wait $pid
stat -c '%u:%g %a %n' volume/touchstone.db
"#,
        place = place.path().display(),
    );
    let output = succeed(&mut isolated(&script));
    assert_eq!(
        output.lines().collect::<Vec<_>>(),
        [
            "10001:10001 700",
            "listening on http://0.0.0.0:7800",
            "ready",
            "10001:10001 600 volume/touchstone.db",
        ]
    );
    // Nothing to start another program with.
    assert!(!rootfs.join("bin/sh").exists() && !rootfs.join("usr/bin/sh").exists());
}

/// Both ways to the image have the same configuration.
#[test]
fn the_dockerfile_configures_the_same_image() {
    let Some(archive) = archive() else {
        return;
    };
    let layout = layout(&archive);
    let config = &config(layout.path())["config"];
    let file = fs::read_to_string(Path::new(ROOT).join("deploy/docker/Dockerfile")).unwrap();
    let (_, last_stage) = file.split_once("FROM scratch\n").unwrap();
    let of: BTreeMap<&str, &str> = last_stage
        .lines()
        .filter_map(|line| line.split_once(' '))
        .collect();
    let list = |instruction: &str| -> Value { serde_json::from_str(of[instruction]).unwrap() };
    let environment: Vec<&str> = of["ENV"].split(' ').collect();
    assert_eq!(config["Env"], json!(environment));
    assert_eq!(config["User"], of["USER"]);
    assert_eq!(config["WorkingDir"], of["WORKDIR"]);
    assert_eq!(config["StopSignal"], of["STOPSIGNAL"]);
    assert_eq!(config["Entrypoint"], list("ENTRYPOINT"));
    assert_eq!(config["Cmd"], list("CMD"));
    assert_eq!(config["Volumes"], json!({of["VOLUME"]: {}}));
    assert_eq!(config["ExposedPorts"], json!({of["EXPOSE"]: {}}));
    let (options, command) = of["HEALTHCHECK"].split_once(" CMD ").unwrap();
    let health = &config["Healthcheck"];
    let test: Value = serde_json::from_str(command).unwrap();
    assert_eq!(
        health["Test"].as_array().unwrap()[1..],
        test.as_array().unwrap()[..]
    );
    let seconds = |member: &str| health[member].as_u64().unwrap() / 1_000_000_000;
    let expected = format!(
        "--interval={}s --timeout={}s --start-period={}s --retries={}",
        seconds("Interval"),
        seconds("Timeout"),
        seconds("StartPeriod"),
        health["Retries"]
    );
    assert_eq!(options, expected);
    let tag = fs::read_to_string(Path::new(ROOT).join("rust-toolchain.toml")).unwrap();
    let (_, channel) = tag.split_once("channel = \"").unwrap();
    let (minor, _) = channel.split_once('"').unwrap().0.rsplit_once('.').unwrap();
    assert!(file.contains(&format!("FROM rust:{minor}-")), "{minor}");
}
