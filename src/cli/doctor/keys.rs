//! The host key, the signing key, the API keys, and the secrets that the host key decrypts.

use std::path::Path;

use jiff::SignedDuration;

use crate::app;
use crate::cli::doctor::finding::{Area, Finding};
use crate::cli::doctor::settings::{self, listens_publicly};
use crate::config::Config;
use touchstone_host::cli::exit::with_causes;
use touchstone_host::cli::shell::quoted;
use touchstone_host::ports::clock::Clock as _;
use touchstone_host::ports::keys::KeyRecord;
use touchstone_host::ports::signing_key::SigningKey as _;
use touchstone_host::ports::store::StoreError;
use touchstone_host::service::keys::KeyState;
use touchstone_host::store::database::Database;
use touchstone_host::system::SystemClock;
use touchstone_host::system::host_key::HostKeyFile;
use touchstone_host::system::private_files::is_open_to_others;
use touchstone_host::system::signing_key::KeyFile;

const AREA: Area = Area::Keys;

/// An API key that expires within this time is reported.
const SOON: SignedDuration = SignedDuration::from_hours(14 * 24);

pub async fn check(
    config: &Config,
    store: Option<&Database>,
    program: &str,
    found: &mut Vec<Finding>,
) {
    host_key(config, store, program, found).await;
    signing_key(config, found);
    if let Some(store) = store {
        api_keys(config, store, program, found).await;
    }
}

async fn host_key(
    config: &Config,
    store: Option<&Database>,
    program: &str,
    found: &mut Vec<Finding>,
) {
    let path = app::host_key_path(config);
    let shown = path.display();
    if !path.exists() {
        found.push(match (store, &config.secrets.key_file) {
            (None, None) => Finding::ok(
                AREA,
                format!("the first start creates the host key, {shown}"),
            ),
            (Some(_), None) => Finding::failure(
                AREA,
                format!(
                    "the host key {shown} is missing, which decrypts the secrets in the database"
                ),
                format!(
                    "copy the key file of the host to {shown}; without it, the secrets are lost"
                ),
            ),
            (_, Some(_)) => Finding::failure(
                AREA,
                format!("`secrets.key_file` names {shown}, which does not exist"),
                format!("copy the key file of the host to {shown}, or correct the setting"),
            ),
        });
        return;
    }
    permissions(&path, found);
    let keys = HostKeyFile::given(&path).and_then(|keys| keys.count());
    match keys {
        Ok(1) => {}
        Ok(_) => found.push(Finding::warning(
            AREA,
            format!("{shown} holds several keys: a rotation was interrupted"),
            format!("{program} key rotate-host"),
        )),
        Err(cause) => {
            found.push(Finding::failure(
                AREA,
                with_causes(&cause),
                "name a PEM private key that this user can read in `secrets.key_file`",
            ));
            return;
        }
    }
    let Some(store) = store else { return };
    found.push(match store.check_secrets().await {
        Ok(secrets) => Finding::ok(
            AREA,
            format!("the host key {shown} decrypts the {secrets} secrets in the database"),
        ),
        Err(cause @ StoreError::Undecryptable { .. }) => Finding::failure(
            AREA,
            with_causes(&cause),
            format!("copy the key file that encrypted this database to {shown}"),
        ),
        Err(cause) => Finding::failure(
            AREA,
            with_causes(&cause),
            "run this again when the database answers",
        ),
    });
}

fn signing_key(config: &Config, found: &mut Vec<Finding>) {
    // Without a key, the settings have a warning.
    let Some(path) = app::signing_key_path(config) else {
        return;
    };
    let shown = path.display();
    if !path.exists() {
        found.push(match &config.attest.key_file {
            None => Finding::ok(
                AREA,
                format!("the first signature creates the signing key, {shown}"),
            ),
            Some(_) => Finding::failure(
                AREA,
                format!("`attest.key_file` names {shown}, which does not exist"),
                format!(
                    "{}, and correct the setting",
                    settings::create_signing_key()
                ),
            ),
        });
        return;
    }
    permissions(&path, found);
    found.push(match KeyFile::given(&path).and_then(|file| file.key()) {
        Ok(key) => Finding::ok(
            AREA,
            format!(
                "the signing key {shown} is usable: {}",
                key.public().fingerprint()
            ),
        ),
        Err(cause) => Finding::failure(
            AREA,
            with_causes(&cause),
            "name a PEM private key that this user can read in `attest.key_file`",
        ),
    });
}

fn permissions(path: &Path, found: &mut Vec<Finding>) {
    if is_open_to_others(path) {
        found.push(Finding::warning(
            AREA,
            format!("other users can read the private key {}", path.display()),
            format!("chmod 600 {}", quoted(&path.display().to_string())),
        ));
    }
}

async fn api_keys(config: &Config, store: &Database, program: &str, found: &mut Vec<Finding>) {
    let keys = match store.keys(None).await {
        Ok(keys) => keys,
        Err(cause) => {
            let remedy = "run this again when the database answers";
            found.push(Finding::failure(AREA, with_causes(&cause), remedy));
            return;
        }
    };
    let now = SystemClock.now();
    let usable: Vec<&KeyRecord> = keys
        .iter()
        .filter(|key| KeyState::of(key, now).is_good())
        .collect();
    let create = format!("{program} key create --tenant default");
    match (usable.len(), listens_publicly(config)) {
        (0, Some(true)) => found.push(Finding::failure(
            AREA,
            format!(
                "there is no usable API key, but `listen` is {}: the host does not start",
                config.listen
            ),
            create,
        )),
        (0, _) => found.push(Finding::warning(
            AREA,
            "there is no usable API key, so only commands in the data folder work",
            create,
        )),
        (1, _) => found.push(Finding::ok(AREA, "1 usable API key")),
        (several, _) => found.push(Finding::ok(AREA, format!("{several} usable API keys"))),
    }
    let soon = now.checked_add(SOON).unwrap_or(now);
    for key in usable {
        if let Some(expires_at) = key.expires_at.filter(|end| *end < soon) {
            found.push(Finding::warning(
                AREA,
                format!(
                    "the API key {} of tenant {} expires at {expires_at}",
                    key.id, key.tenant
                ),
                format!("{program} key rotate {} --expires-in 90d", key.id),
            ));
        }
    }
}
