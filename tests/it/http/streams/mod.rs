mod load;
mod log_reader;
mod subscriptions;
