//! Whether runs can be archived.

use crate::cli::doctor::finding::{Area, Finding};
use crate::config::Config;
use touchstone_host::objects::settings::Location;
use touchstone_host::objects::{ObjectError, ObjectStorage};
use touchstone_host::system::private_files::is_open_to_others;

const AREA: Area = Area::Archive;

/// Writes, reads and deletes a small object.
pub async fn check(config: &Config, found: &mut Vec<Finding>) {
    let environment = |name: &str| std::env::var(name).ok();
    let objects = match ObjectStorage::open(&config.archive, &environment) {
        Ok(None) => return,
        Ok(Some(objects)) => objects,
        Err(fault) => {
            found.push(Finding::failure(
                AREA,
                fault,
                "set the variable in the environment of the host, or correct the setting",
            ));
            return;
        }
    };
    let place = objects.shown();
    if let Err(cause) = objects.check().await {
        found.push(Finding::failure(
            AREA,
            format!("runs cannot be archived in {place}, and are kept: {cause}"),
            remedy(place, &cause),
        ));
        return;
    }
    found.push(Finding::ok(
        AREA,
        format!("runs can be archived in {place}"),
    ));
    if let Ok(Some(Location::Folder(folder))) = config.archive.location()
        && is_open_to_others(&folder)
    {
        found.push(Finding::warning(
            AREA,
            format!("other users can read the archive {place}, which has task content"),
            format!("chmod 700 {place}"),
        ));
    }
}

fn remedy(place: &str, cause: &ObjectError) -> String {
    match cause {
        ObjectError::NoFolder => format!("mkdir -m 700 -p {place}"),
        ObjectError::Denied | ObjectError::Io(_) => {
            "name another folder or bucket in `archive.url`, or give the user of the host, or its access key, the right to write there".to_owned()
        }
        ObjectError::Service(_) => {
            "correct `archive.url`, `archive.region` and the access key".to_owned()
        }
        _ => "correct `archive.endpoint`, or start the service, and run this again".to_owned(),
    }
}
