//! Run state: requests, the fold of the log, status.
