//! Ratings of agents, agent cards and OASIS verdicts.

use crate::routes::Pages;

pub fn routes(pages: Pages) -> Pages {
    pages
}
