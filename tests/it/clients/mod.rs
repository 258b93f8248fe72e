//! The packages that use the program from other languages.

mod python;
