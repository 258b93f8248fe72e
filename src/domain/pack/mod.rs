//! Pack rules: archive, manifest, references, signatures, lockfile.
