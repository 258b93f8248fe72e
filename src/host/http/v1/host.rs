//! This host's own API beyond OpenWOP, under `/v1/host/touchstone/`.
