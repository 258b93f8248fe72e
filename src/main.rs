//! The `touchstone` binary. Everything lives in the library, so that nothing generic is compiled twice.

fn main() -> std::process::ExitCode {
    touchstone::cli::main()
}
