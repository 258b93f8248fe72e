//! The packages that use the program from other languages.

mod frameworks;
mod node;
mod python;
