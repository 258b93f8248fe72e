//! Packs, suites, keys, webhooks, sessions and settings of the host.

use crate::routes::Pages;

pub fn routes(pages: Pages) -> Pages {
    pages
}
