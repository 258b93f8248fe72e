//! Versions of agents on channels, gates, and the audit log.

use crate::routes::Pages;

pub fn routes(pages: Pages) -> Pages {
    pages
}
