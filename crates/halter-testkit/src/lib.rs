//! Test helpers for Halter: temporary workspaces, gates, fault wrappers, event assertions, leak checks.
