//! What comes before the messages: tools and the system prompt.

use super::log::{CACHE_MARK, put, put_text_block};
use crate::wire::body::{ObjectWriter, write_json};
use crate::wire::common::{Given, Loaded};
use crate::wire::names::ToolNames;
use crate::wire::schema::object_root;
use halter_protocol::{AssembledPrompt, PromptSegment, ToolSpec};
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

/// Tools and system prompt, written when they change.
#[derive(Default)]
pub(super) struct Prefix {
    given: Given,
    pub loaded: Loaded,
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
        names.learn(tools.iter());
        let (json, warnings) = tools_array(tools, names);
        self.tools_json = json;
        warnings
    }

    pub fn len(&self) -> usize {
        self.tools_json.len() + self.system_json.len()
    }

    /// Writes both members, where there is anything in them, with one more
    /// tool and those that were loaded behind the others.
    pub fn write(&self, body: &mut ObjectWriter, more: Option<&ToolSpec>, names: &ToolNames) {
        let mut tools = Cow::Borrowed(&self.tools_json);
        for tool in more.into_iter().chain(self.loaded.behind()) {
            append(tools.to_mut(), tool, names, "");
        }
        for tool in self.loaded.with_messages() {
            append(tools.to_mut(), tool, names, ",\"defer_loading\":true");
        }
        if !tools.is_empty() {
            body.member_text("tools", &tools);
        }
        if !self.system_json.is_empty() {
            body.member_text("system", &self.system_json);
        }
    }
}

/// Puts a tool at the end of an array of them.
fn append(tools: &mut Vec<u8>, tool: &ToolSpec, names: &ToolNames, more: &str) {
    let before = match tools.pop() {
        Some(_) => ",",
        None => "[",
    };
    put(tools, before);
    put_tool(tools, tool, &names.sent(&tool.name));
    if !more.is_empty() {
        tools.pop();
        put(tools, more);
        put(tools, "}");
    }
    close(tools);
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
