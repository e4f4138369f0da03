//! What comes before the messages: tools and the system prompt.

use super::log::{CACHE_MARK, put, put_text_block};
use crate::wire::body::{ObjectWriter, write_json};
use crate::wire::common::Given;
use crate::wire::names::ToolNames;
use crate::wire::schema::object_root;
use halter_protocol::{AssembledPrompt, PromptSegment, ToolSpec};
use std::collections::HashSet;
use std::sync::Arc;

/// Tools and system prompt, written when they change.
#[derive(Default)]
pub(super) struct Prefix {
    given: Given,
    /// The arrays as JSON text; empty where there is nothing to send.
    tools_json: Vec<u8>,
    system_json: Vec<u8>,
}

impl Prefix {
    /// Takes what is different; says what could not be taken.
    pub fn set(
        &mut self,
        prompt: &AssembledPrompt,
        tools: &Arc<[ToolSpec]>,
        names: &mut ToolNames,
    ) -> Vec<String> {
        let changed = self.given.set(prompt, tools);
        if changed.prompt {
            self.system_json = system(prompt);
        }
        if !changed.tools {
            return Vec::new();
        }
        names.learn(tools);
        let (json, warnings) = tools_array(tools, names);
        self.tools_json = json;
        warnings
    }

    pub fn len(&self) -> usize {
        self.tools_json.len() + self.system_json.len()
    }

    /// Writes both members, where there is anything in them, with one more
    /// tool behind the others.
    pub fn write(&self, body: &mut ObjectWriter, more: Option<&ToolSpec>) {
        match more {
            Some(tool) => body.member_text("tools", &self.tools_with(tool)),
            None if !self.tools_json.is_empty() => body.member_text("tools", &self.tools_json),
            None => {}
        }
        if !self.system_json.is_empty() {
            body.member_text("system", &self.system_json);
        }
    }

    fn tools_with(&self, more: &ToolSpec) -> Vec<u8> {
        let mut tools = self.tools_json.clone();
        let before = match tools.pop() {
            Some(_) => ",",
            None => "[",
        };
        put(&mut tools, before);
        put_tool(&mut tools, more, more.name.as_str());
        close(&mut tools);
        tools
    }
}

fn system(prompt: &AssembledPrompt) -> Vec<u8> {
    let mut out = Vec::new();
    let shown = |segment: &&PromptSegment| !segment.text.trim().is_empty();
    let last_static = prompt.static_segments().iter().filter(shown).count();
    let blocks = prompt.segments().iter().filter(shown);
    for (count, segment) in blocks.enumerate() {
        put(&mut out, if count == 0 { "[" } else { "," });
        put_text_block(&mut out, &segment.text);
        if count + 1 == last_static {
            mark_last(&mut out);
        }
    }
    close(&mut out);
    out
}

fn tools_array(tools: &[ToolSpec], names: &ToolNames) -> (Vec<u8>, Vec<String>) {
    let mut out = Vec::new();
    let mut warnings = Vec::new();
    let mut sent = HashSet::new();
    for tool in tools {
        let name = names.sent(&tool.name);
        if !sent.insert(name.clone()) {
            warnings.push(format!(
                "the tool '{}' was not offered: another one is called '{name}' on this wire",
                tool.name
            ));
            continue;
        }
        let before = if out.is_empty() { "[" } else { "," };
        put(&mut out, before);
        put_tool(&mut out, tool, &name);
    }
    if !out.is_empty() {
        mark_last(&mut out);
    }
    close(&mut out);
    (out, warnings)
}

fn put_tool(out: &mut Vec<u8>, tool: &ToolSpec, name: &str) {
    put(out, "{\"name\":");
    write_json(out, name);
    if !tool.description.trim().is_empty() {
        put(out, ",\"description\":");
        write_json(out, &tool.description);
    }
    put(out, ",\"input_schema\":");
    write_json(out, &object_root(&tool.input_schema));
    put(out, "}");
}

/// Marks the object that ends the text.
fn mark_last(out: &mut Vec<u8>) {
    out.pop();
    put(out, CACHE_MARK);
    put(out, "}");
}

fn close(out: &mut Vec<u8>) {
    if !out.is_empty() {
        put(out, "]");
    }
}
