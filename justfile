# A menu over plain commands; nobody needs `just` to work here.

# What can be done
default:
    @just --list

# Does it compile, tests included?
check:
    cargo check --workspace --all-targets

# Everything CI runs: what tests need, format, lints, tests
verify:
    ./test

# Only the tests, or those that match: just test 'test(demo)'
test *filter:
    ./test --quick {{ if filter == "" { "" } else { "-E '" + filter + "'" } }}

# Format and lints
lint:
    cargo fmt --check
    cargo clippy --workspace --all-targets -- -D warnings

# See it work
demo *arguments:
    cargo run -- demo {{ arguments }}

# Accept changed snapshots, after a look at them
snapshots:
    INSTA_UPDATE=always cargo test --workspace --lib render::

# Build what users install, in `artefacts/` in the target folder: docs/installing.md
dist *arguments:
    dist/build {{ arguments }}

# Draw the README's picture again
picture:
    cargo build --release
    CLICOLOR_FORCE=1 COLUMNS=104 target/release/touchstone demo | python3 docs/images/terminal_svg.py > docs/images/demo.svg

# Measure: docs/performance.md
bench *arguments:
    bench/run {{ arguments }}

# Inject faults into a cluster of processes: docs/reliability.md
chaos *arguments:
    bench/chaos {{ arguments }}

# Measure builds: docs/performance.md
bench-build *arguments:
    bench/build {{ arguments }}

# The same items through other harnesses on PATH (docs/performance.md).
peers *arguments:
    bench/peers {{ arguments }}

# Hold a fresh host to a black-box checker
conformance checker *arguments:
    conformance/run {{ checker }} {{ arguments }}
