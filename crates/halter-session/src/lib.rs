//! The session log: stores, blobs, checkpoints.
