//! The checked-in JSON Schema is the one this version writes.

use halter_protocol::schema::event_schema_text;
use std::path::{Path, PathBuf};

/// Set to renew the checked-in schema instead of comparing it.
const RENEW: &str = "HALTER_UPDATE_SCHEMA";

fn checked_in() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/event.schema.json")
}

#[test]
fn the_checked_in_schema_is_current() {
    let current = event_schema_text();
    if std::env::var_os(RENEW).is_some() {
        std::fs::write(checked_in(), &current).unwrap();
    }
    let written = std::fs::read_to_string(checked_in()).unwrap_or_default();
    assert!(
        written == current,
        "schema/event.schema.json is stale: run `{RENEW}=1 cargo test -p halter-protocol`, \
         and read the difference: a field that went or narrowed breaks consumers"
    );
}
