//! Faults that are built into the rules on purpose, one at a time, to prove that the simulation
//! finds them.

use std::cell::Cell;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// An owner gives a task to the next worker as soon as its own clock says that the hold is over.
    NoMargin,
    /// A worker makes calls without a valid hold.
    HoldIgnored,
    /// An owner accepts any token.
    AnyToken,
    /// An owner accepts the facts of an attempt from any worker.
    AnyWorker,
    /// An owner records repeated facts again.
    RepeatedFactsRecorded,
    /// An owner confirms facts before its log allows calls.
    ConfirmedEarly,
    /// An owner asks the budget again if a question is repeated.
    RepeatedQuestionsAsked,
    /// An owner keeps what a lost attempt has reserved.
    ReservationsKept,
    /// An owner does not publish a task again that waits for long.
    NotPublishedAgain,
    /// An owner never gives up on a silent worker.
    HoldsNeverEnd,
    /// A worker counts its hold from the answer to a heartbeat.
    HeldSinceAnswer,
    /// An owner gives a task up after three lost attempts, though their workers may never have had
    /// it.
    UnknownAttemptsCounted,
    /// An owner gives a task up after three lost attempts, though it heard of no worker at all.
    OutagesCounted,
    /// An owner answers a question without recording the facts that come with it.
    FactsOfQuestionsIgnored,
    /// A worker takes a call for allowed that was only reserved.
    ReservedCallsMade,
}

impl Mutation {
    pub const ALL: [Self; 15] = [
        Self::NoMargin,
        Self::HoldIgnored,
        Self::AnyToken,
        Self::AnyWorker,
        Self::RepeatedFactsRecorded,
        Self::ConfirmedEarly,
        Self::RepeatedQuestionsAsked,
        Self::ReservationsKept,
        Self::NotPublishedAgain,
        Self::HoldsNeverEnd,
        Self::HeldSinceAnswer,
        Self::UnknownAttemptsCounted,
        Self::OutagesCounted,
        Self::FactsOfQuestionsIgnored,
        Self::ReservedCallsMade,
    ];

    /// Whether the rules of this thread have this fault now.
    pub fn is_on(self) -> bool {
        ON.get() == Some(self)
    }

    /// Builds the fault into the rules of this thread until the result is dropped.
    pub fn turn_on(self) -> On {
        ON.set(Some(self));
        On
    }
}

pub struct On;

impl Drop for On {
    fn drop(&mut self) {
        ON.set(None);
    }
}

thread_local! {
    static ON: Cell<Option<Mutation>> = const { Cell::new(None) };
}
