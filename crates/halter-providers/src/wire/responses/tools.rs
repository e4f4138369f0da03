//! Tools as functions, strict where their schema allows.
//!
//! A service that is told nothing makes a schema strict by force, which turns
//! every optional member into a required one; so `strict` is always said.

use crate::wire::body::Warnings;
use crate::wire::schema::function_parameters;
use crate::wire::strict::is_strict;
use halter_protocol::ToolSpec;
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;

/// A tool as the wire writes it.
#[derive(Serialize)]
pub(super) struct FunctionTool<'a> {
    r#type: &'static str,
    name: Cow<'a, str>,
    description: &'a str,
    parameters: Cow<'a, Value>,
    strict: bool,
}

impl<'a> FunctionTool<'a> {
    pub fn new(spec: &'a ToolSpec, name: Cow<'a, str>, warnings: &mut Warnings) -> Self {
        let parameters = function_parameters(spec, warnings);
        Self {
            r#type: "function",
            name,
            description: &spec.description,
            strict: is_strict(&parameters),
            parameters,
        }
    }
}
