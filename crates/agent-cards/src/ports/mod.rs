pub mod prober;
pub mod watches;
