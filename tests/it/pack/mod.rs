//! Packs: what is read, what is trusted, what is refused, what is installed.

mod corpus;
mod reference;
mod schemas;
mod seeds;
