//! Wake-ups between readers, workers and replicas.
