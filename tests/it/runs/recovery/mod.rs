mod lease;
mod outage;
mod pause;
mod resume;
