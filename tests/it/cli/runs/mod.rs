mod compare;
mod eval;
mod inspect;
mod interrupts;
mod ownership;
mod storage;
mod suites;
mod webhooks;
