//! The JSON Schema of the event stream.

use crate::event::SessionEvent;
use serde_json::Value;

/// The JSON Schema of one line of an event stream.
pub fn event_schema() -> Value {
    schemars::schema_for!(SessionEvent).to_value()
}

/// The same as indented text, as checked in.
pub fn event_schema_text() -> String {
    format!("{:#}\n", event_schema())
}
