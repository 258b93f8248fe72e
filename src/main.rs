//! The `touchstone` binary. All code is in the library, so that generic functions are compiled only
//! once.

/// Faster than the system allocator, and returns large blocks to the system sooner (ADR 34).
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    touchstone::cli::main()
}
