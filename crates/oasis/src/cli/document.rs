//! Reading documents: JSON, or YAML by the file's extension; `-` is stdin.

use std::path::Path;

use serde_json::Value;

use touchstone_host::cli::exit::Failure;
use touchstone_host::cli::files;
use touchstone_kit::json;

/// Maximum size of a document in bytes.
const MAX_OCTETS: u64 = 64 << 20;

pub fn read(file: &Path) -> Result<Value, Failure> {
    let bytes = match is_stdin(file) {
        true => files::read_stdin(MAX_OCTETS),
        false => files::read(file, MAX_OCTETS),
    }?;
    let unreadable = |kind: &str, cause: String| {
        let name = name(file);
        Failure::bad_input("no_document", format!("{name} is not {kind}: {cause}"))
            .or_try("use a JSON file, or a YAML file that ends in .yaml")
    };
    let extension = file.extension().and_then(|it| it.to_str());
    if matches!(extension, Some("yaml" | "yml")) {
        let text =
            std::str::from_utf8(&bytes).map_err(|_| unreadable("YAML", "not UTF-8".to_owned()))?;
        return serde_saphyr::from_str(text).map_err(|cause| {
            // The error includes a drawing of the place; its first line has position and cause.
            let words = cause.to_string();
            unreadable("YAML", words.lines().next().unwrap_or_default().to_owned())
        });
    }
    json::parse(&bytes).map_err(|cause| unreadable("JSON", cause.to_string()))
}

/// The file's name in messages.
pub fn name(file: &Path) -> String {
    match is_stdin(file) {
        true => "stdin".to_owned(),
        false => file.display().to_string(),
    }
}

fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}
