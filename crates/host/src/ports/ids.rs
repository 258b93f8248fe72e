//! New identifiers and random secrets.

pub trait Ids: Send + Sync {
    /// `<prefix>_<time-ordered unique part>`, `[A-Za-z0-9_-]` only.
    fn mint(&self, prefix: &str) -> String;
    /// A time-ordered UUID.
    fn uuid(&self) -> uuid::Uuid;
    /// 32 bytes of cryptographic randomness.
    fn secret(&self) -> [u8; 32];
}
