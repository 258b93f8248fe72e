//! The `touchstone` binary. Everything lives in the library, so that nothing generic is compiled twice.

/// Takes less time than the system's allocator and gives large blocks back sooner (ADR 34).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    touchstone::cli::main()
}
