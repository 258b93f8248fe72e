mod attest;
mod deploy;
