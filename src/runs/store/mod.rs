pub mod annotations;
pub mod attempts;
pub mod calibrations;
pub mod pauses;
pub mod queue;
pub mod runs;
pub mod storage;
pub mod webhooks;
