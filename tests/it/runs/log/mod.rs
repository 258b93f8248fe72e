mod journal;
mod round_trip;
mod unreadable;
mod writer;
