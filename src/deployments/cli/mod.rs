pub mod deploy;
