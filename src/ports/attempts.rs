//! The eval runs of one version of an agent, as attempts that are pooled.
