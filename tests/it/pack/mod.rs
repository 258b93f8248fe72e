//! Packs: what is read, what is trusted, what is refused, what is installed.

mod cli;
mod corpus;
mod installing;
mod publishing;
mod reference;
mod registries;
mod schemas;
mod seeds;
