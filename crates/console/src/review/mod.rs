//! What people review: questions that runs wait for, and queues of answers to label.

mod choose;
mod label;
mod list;
mod queue;
mod words;

use crate::page::answer::segment;
use crate::routes::Pages;
use touchstone_host::access::Scope;

pub fn routes(pages: Pages) -> Pages {
    pages
        .page("/console/review", Scope::RunsRead, list::page)
        .page("/console/review/new", Scope::GatesWrite, choose::page)
        .form("/console/review/queues", Scope::GatesWrite, choose::create)
        .page(
            "/console/review/queues/{reviewId}",
            Scope::RunsRead,
            queue::page,
        )
        .page(
            "/console/review/queues/{reviewId}/next",
            Scope::ReviewsWrite,
            label::next,
        )
        .page(
            "/console/review/queues/{reviewId}/items/{item}",
            Scope::ReviewsWrite,
            label::page,
        )
        .form(
            "/console/review/queues/{reviewId}/items/{item}",
            Scope::ReviewsWrite,
            label::send,
        )
        .form(
            "/console/review/queues/{reviewId}/close",
            Scope::GatesWrite,
            queue::close,
        )
        .form(
            "/console/review/queues/{reviewId}/calibrate",
            Scope::GatesWrite,
            queue::calibrate,
        )
}

/// The address of a queue's page.
fn queue_page(id: &str) -> String {
    format!("/console/review/queues/{}", segment(id))
}
