//! A page as text: its accessibility tree, with names for what can be acted on.

use super::running::Running;
use crate::builtin::support::text_head;
use crate::limits::{BROWSER_FRAMES, BROWSER_SNAPSHOT_BYTES, BROWSER_TREE_DEPTH};
use serde_json::{Value, json};
use std::collections::HashMap;

/// Roles of what a person acts on.
const ACTED_ON: [&str; 18] = [
    "button",
    "link",
    "textbox",
    "searchbox",
    "combobox",
    "checkbox",
    "radio",
    "switch",
    "slider",
    "spinbutton",
    "menuitem",
    "menuitemcheckbox",
    "menuitemradio",
    "option",
    "tab",
    "treeitem",
    "listbox",
    "Iframe",
];

/// Roles that only hold others.
const TRANSPARENT: [&str; 6] = [
    "none",
    "generic",
    "InlineTextBox",
    "LayoutTable",
    "LayoutTableRow",
    "LayoutTableCell",
];

/// The tree of one frame.
struct Frame {
    nodes: HashMap<String, Value>,
    root: Option<String>,
}

/// Looks at the page. What can be acted on has a name, for the calls that
/// follow.
pub(super) async fn take(running: &mut Running) -> anyhow::Result<String> {
    let tree = running.page("Page.getFrameTree", json!({})).await?;
    let mut ids = Vec::new();
    frame_ids(tree.pointer("/frameTree"), &mut ids);
    let mut frames = HashMap::new();
    // A frame in the tree of its parent is known by the element that holds it.
    let mut owners = HashMap::new();
    for (number, id) in ids.iter().enumerate() {
        let params = json!({ "frameId": id });
        // A frame may be gone by now.
        let Ok(answer) = running
            .page("Accessibility.getFullAXTree", params.clone())
            .await
        else {
            continue;
        };
        frames.insert(id.clone(), frame(answer));
        if number > 0
            && let Ok(owner) = running.page("DOM.getFrameOwner", params).await
            && let Some(element) = owner.get("backendNodeId").and_then(Value::as_i64)
        {
            owners.insert(element, id.clone());
        }
    }
    let mut writer = Writer {
        frames: &frames,
        owners: &owners,
        refs: HashMap::new(),
        text: String::new(),
    };
    if let Some(main) = ids.first() {
        writer.frame(main, 0);
    }
    let (text, refs) = (writer.text, writer.refs);
    running.refs = refs;
    if text.len() <= BROWSER_SNAPSHOT_BYTES {
        return Ok(text);
    }
    let shown = text_head(&text, BROWSER_SNAPSHOT_BYTES);
    Ok(format!(
        "{shown}\n… the page goes on; `eval` or `scroll` shows more of it"
    ))
}

fn frame_ids(tree: Option<&Value>, ids: &mut Vec<String>) {
    let Some(tree) = tree.filter(|_| ids.len() < BROWSER_FRAMES) else {
        return;
    };
    if let Some(id) = tree.pointer("/frame/id").and_then(Value::as_str) {
        ids.push(id.to_owned());
    }
    let children = tree.get("childFrames").and_then(Value::as_array);
    for child in children.into_iter().flatten() {
        frame_ids(Some(child), ids);
    }
}

fn frame(mut answer: Value) -> Frame {
    let nodes = answer.get_mut("nodes").map(Value::take);
    let Some(Value::Array(nodes)) = nodes else {
        return Frame {
            nodes: HashMap::new(),
            root: None,
        };
    };
    let id = |node: &Value| text(node, "/nodeId").to_owned();
    Frame {
        root: nodes.first().map(id),
        nodes: nodes.into_iter().map(|node| (id(&node), node)).collect(),
    }
}

fn text<'a>(node: &'a Value, pointer: &str) -> &'a str {
    let found = node.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

struct Writer<'a> {
    frames: &'a HashMap<String, Frame>,
    owners: &'a HashMap<i64, String>,
    refs: HashMap<String, i64>,
    text: String,
}

impl Writer<'_> {
    fn frame(&mut self, id: &str, depth: usize) {
        let frames = self.frames;
        if let Some(frame) = frames.get(id)
            && let Some(root) = &frame.root
        {
            self.node(frame, root, depth);
        }
    }

    fn node(&mut self, frame: &Frame, id: &str, depth: usize) {
        let Some(node) = frame.nodes.get(id) else {
            return;
        };
        // More is cut anyway, and some pages nest without end.
        if self.text.len() > BROWSER_SNAPSHOT_BYTES || depth > BROWSER_TREE_DEPTH {
            return;
        }
        let role = text(node, "/role/value");
        let name = text(node, "/name/value").trim();
        let ignored = node.get("ignored") == Some(&Value::Bool(true));
        let plain = TRANSPARENT.contains(&role) && name.is_empty();
        let inside = match ignored || plain || role == "InlineTextBox" {
            true => depth,
            false => {
                self.line(node, role, name, depth);
                depth + 1
            }
        };
        let element = node.get("backendDOMNodeId").and_then(Value::as_i64);
        let owners = self.owners;
        if let Some(inner) = element.and_then(|element| owners.get(&element)) {
            self.frame(inner, inside);
            return;
        }
        // What a button or a link says is its name already.
        if matches!(role, "StaticText" | "button" | "option") && !name.is_empty() {
            return;
        }
        let children = node.get("childIds").and_then(Value::as_array);
        for child in children.into_iter().flatten() {
            if let Some(child) = child.as_str() {
                self.node(frame, child, inside);
            }
        }
    }

    fn line(&mut self, node: &Value, role: &str, name: &str, depth: usize) {
        let indent = "  ".repeat(depth.min(BROWSER_TREE_DEPTH));
        let role = match role {
            "RootWebArea" => "page",
            "StaticText" => "text",
            other => other,
        };
        let mut line = format!("{indent}- {role}");
        if !name.is_empty() {
            let words: Vec<&str> = name.split_whitespace().collect();
            line.push_str(&format!(" {:?}", words.join(" ")));
        }
        let value = match node.pointer("/value/value") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        };
        if !value.is_empty() && value != name {
            line.push_str(&format!(" value={value:?}"));
        }
        line.push_str(&properties(node));
        let element = node.get("backendDOMNodeId").and_then(Value::as_i64);
        if let Some(element) = element.filter(|_| ACTED_ON.contains(&role) || focusable(node)) {
            let name = format!("e{}", self.refs.len() + 1);
            line.push_str(&format!(" [ref={name}]"));
            self.refs.insert(name, element);
        }
        self.text.push_str(&line);
        self.text.push('\n');
    }
}

fn property<'a>(node: &'a Value, name: &str) -> Option<&'a Value> {
    let all = node.get("properties").and_then(Value::as_array)?;
    let found = all.iter().find(|it| text(it, "/name") == name)?;
    found.pointer("/value/value")
}

fn focusable(node: &Value) -> bool {
    let is_page = text(node, "/role/value") == "RootWebArea";
    !is_page && property(node, "focusable") == Some(&Value::Bool(true))
}

/// What of an element's state matters.
fn properties(node: &Value) -> String {
    let mut told = String::new();
    for name in [
        "checked", "selected", "expanded", "disabled", "required", "level", "focused",
    ] {
        match property(node, name) {
            Some(Value::Bool(true)) => told.push_str(&format!(" {name}")),
            Some(Value::String(word)) if word == "true" => told.push_str(&format!(" {name}")),
            Some(Value::String(word)) if word == "mixed" => {
                told.push_str(&format!(" {name}=mixed"));
            }
            Some(Value::Number(number)) => told.push_str(&format!(" {name}={number}")),
            _ => {}
        }
    }
    told
}
