//! Packs: reading, trust, rejection and installation.

mod cli;
mod corpus;
mod installing;
mod publishing;
mod reference;
mod registries;
mod schemas;
mod seeds;
mod streams;
