mod copies;
mod health;
mod idempotency;
mod migrations;
mod owners;
mod records;
mod secrets;
mod signals;
