pub mod annotations;
pub mod calibrations;
pub mod channels;
pub mod pauses;
pub mod queue;
pub mod storage;
pub mod webhooks;
