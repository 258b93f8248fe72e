//! Stored queues of human reviews.

use crate::rules::review::Review;

/// A queue in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedReview {
    /// Its place among the tenant's queues: newer ones have higher numbers.
    pub number: i64,
    pub review: Review,
    /// Number of its labels.
    pub labels: usize,
}

/// The result of recording a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labelled {
    Recorded,
    /// Other people gave all labels of the answer, or the answer is complete.
    Complete,
    /// The queue is closed.
    Closed,
    /// The queue has no such item.
    Missing,
}
