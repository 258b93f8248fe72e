//! Style sheet, scripts and the icon. Their addresses contain their digests, so that browsers keep
//! them and still get a changed one.

use std::sync::LazyLock;

use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::Response;
use sha2::{Digest, Sha256};

use touchstone_host::http::answer::Answer;
use touchstone_host::http::extract::PathParameters;
use touchstone_kit::error::{ErrorCode, Problem};
use touchstone_kit::hex::hex_prefix;

/// One file of the style sheet for each part of the console.
const CSS: &str = concat!(
    include_str!("../../assets/console.css"),
    include_str!("../../assets/runs.css"),
    include_str!("../../assets/live.css"),
    include_str!("../../assets/compare.css"),
    include_str!("../../assets/deployments.css"),
    include_str!("../../assets/ratings.css"),
    include_str!("../../assets/operations.css"),
    include_str!("../../assets/review.css"),
);

struct Asset {
    name: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

const ASSETS: [Asset; 5] = [
    Asset {
        name: "console.css",
        content_type: "text/css; charset=utf-8",
        bytes: CSS.as_bytes(),
    },
    Asset {
        name: "console.js",
        content_type: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../../assets/console.js"),
    },
    Asset {
        name: "live.js",
        content_type: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../../assets/live.js"),
    },
    Asset {
        name: "label.js",
        content_type: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../../assets/label.js"),
    },
    Asset {
        name: "icon.svg",
        content_type: "image/svg+xml",
        bytes: include_bytes!("../../assets/icon.svg"),
    },
];

/// The addresses of the assets.
pub struct Links {
    pub css: String,
    pub js: String,
    /// Live updates of a run's page.
    pub live: String,
    /// Keys of the page of an answer to label.
    pub label: String,
    pub icon: String,
}

static LINKS: LazyLock<Links> = LazyLock::new(|| {
    let [css, js, live, label, icon] = ASSETS.map(|asset| address(&asset));
    Links {
        css,
        js,
        live,
        label,
        icon,
    }
});

pub fn links() -> &'static Links {
    &LINKS
}

fn address(asset: &Asset) -> String {
    format!("/console/assets/{}/{}", digest(asset), asset.name)
}

fn digest(asset: &Asset) -> String {
    let digest: [u8; 32] = Sha256::digest(asset.bytes).into();
    hex_prefix(&digest, 16)
}

/// `GET /console/assets/{hash}/{name}`.
pub async fn get(parameters: PathParameters) -> Answer {
    let (hash, name) = (parameters.get("hash"), parameters.get("name"));
    let mut known = ASSETS.iter();
    let asset = known.find(|asset| asset.name == name && digest(asset) == hash);
    let Some(asset) = asset else {
        return Err(Problem::new(ErrorCode::NotFound, "there is no such file").into());
    };
    let mut response = Response::new(Body::from(asset.bytes));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(asset.content_type));
    headers.insert(
        CACHE_CONTROL,
        HeaderValue::from_static("public, max-age=31536000, immutable"),
    );
    Ok(response)
}
