//! Two runs side by side, and the history of a suite.

use crate::routes::Pages;

pub fn routes(pages: Pages) -> Pages {
    pages
}
