//! Loaders and compiler for skills and plugins: resource snapshots.
