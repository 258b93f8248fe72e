//! Views of recorded facts for people and machines.
