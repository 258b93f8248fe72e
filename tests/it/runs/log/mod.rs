mod journal;
mod projection;
mod round_trip;
mod unreadable;
mod writer;
