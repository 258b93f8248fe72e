//! Lists the pages of the error codes, so that the host can serve them.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let mut table = String::from("[");
    for folder in ["docs/errors", "docs/errors/ratings"] {
        println!("cargo::rerun-if-changed={folder}");
        let mut pages = Vec::new();
        for entry in fs::read_dir(Path::new(&root).join(folder))? {
            pages.push(entry?.path());
        }
        pages.sort();
        for page in pages
            .iter()
            .filter(|page| page.extension().is_some_and(|it| it == "md"))
        {
            let code = page.file_stem().unwrap_or_default().to_string_lossy();
            // A path relative to the package: a target folder that several clones share must not
            // include pages of another clone.
            let path = format!("/{folder}/{code}.md");
            let text = format!("include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {path:?}))");
            let _ = write!(table, "({code:?}, {text}),");
        }
    }
    table.push(']');
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&out).join("error_pages.rs"), table)
}
