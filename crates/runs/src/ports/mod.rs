pub mod annotations;
pub mod calibrations;
pub mod pauses;
pub mod queue;
pub mod reviews;
pub mod storage;
pub mod webhooks;
