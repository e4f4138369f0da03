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

/// Stands where a page is cut.
const GOES_ON: &str = "… the page goes on; `eval` or `scroll` shows more of it";

/// The tree of one frame.
struct Frame {
    nodes: HashMap<String, Value>,
    root: Option<String>,
}

/// Looks at the page. What can be acted on has a name, for the calls that
/// follow.
pub(super) async fn take(running: &mut Running) -> anyhow::Result<String> {
    let tree = running.ask("Page.getFrameTree", json!({})).await?;
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
        writer.write(main);
    }
    let (text, refs) = (writer.text, writer.refs);
    running.refs = refs;
    Ok(cut(text))
}

fn cut(text: String) -> String {
    if text.len() <= BROWSER_SNAPSHOT_BYTES {
        return text;
    }
    let shown = text_head(&text, BROWSER_SNAPSHOT_BYTES);
    format!("{shown}\n{GOES_ON}")
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

/// A node that is still to be written.
struct Place<'a> {
    frame: &'a Frame,
    id: &'a str,
    depth: usize,
}

impl<'a> Writer<'a> {
    /// Writes a frame and all that is inside. A page can nest deeper than a
    /// stack is: what is left is on a list.
    fn write(&mut self, main: &str) {
        let mut left: Vec<Place<'a>> = self.root(main, 0).into_iter().collect();
        while let Some(place) = left.pop() {
            self.node(&place, &mut left);
        }
    }

    fn root(&self, id: &str, depth: usize) -> Option<Place<'a>> {
        let frame = self.frames.get(id)?;
        let id = frame.root.as_ref()?;
        Some(Place { frame, id, depth })
    }

    fn node(&mut self, place: &Place<'a>, left: &mut Vec<Place<'a>>) {
        let &Place { frame, id, depth } = place;
        let Some(node) = frame.nodes.get(id) else {
            return;
        };
        // More is cut anyway, and some pages nest without end.
        if self.text.len() > BROWSER_SNAPSHOT_BYTES || depth >= BROWSER_TREE_DEPTH {
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
            left.extend(self.root(inner, inside));
            return;
        }
        // What a button or a link says is its name already.
        if matches!(role, "StaticText" | "button" | "option") && !name.is_empty() {
            return;
        }
        let children = node.get("childIds").and_then(Value::as_array);
        let children = children.into_iter().flatten().filter_map(Value::as_str);
        // The last of the list is written next.
        left.extend(children.rev().map(|id| Place {
            frame,
            id,
            depth: inside,
        }));
    }

    fn line(&mut self, node: &Value, role: &str, name: &str, depth: usize) {
        let indent = "  ".repeat(depth);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A page of these nodes, the first of which is its root.
    fn written(nodes: Vec<Value>) -> String {
        let frames = [("main".to_owned(), frame(json!({ "nodes": nodes })))];
        let frames = HashMap::from(frames);
        let mut writer = Writer {
            frames: &frames,
            owners: &HashMap::new(),
            refs: HashMap::new(),
            text: String::new(),
        };
        writer.write("main");
        writer.text
    }

    /// Elements of one role, each inside the one before, and a text in the last.
    fn nested(role: &str, count: usize) -> Vec<Value> {
        let node = |number: usize| {
            let (id, child) = (number.to_string(), (number + 1).to_string());
            json!({"nodeId": id, "role": {"value": role}, "childIds": [child]})
        };
        let mut nodes: Vec<Value> = (0..count).map(node).collect();
        let role = json!({"value": "StaticText"});
        let name = json!({"value": "the end"});
        nodes.push(json!({"nodeId": count.to_string(), "role": role, "name": name}));
        nodes
    }

    #[test]
    fn levels_beyond_the_deepest_are_left_out() {
        let most = BROWSER_TREE_DEPTH;
        let shown = written(nested("list", most - 1));
        assert_eq!(shown.lines().count(), most);
        assert!(shown.contains("the end"));
        let shown = written(nested("list", most));
        assert_eq!(shown.lines().count(), most);
        assert!(!shown.contains("the end"));
    }

    #[test]
    fn what_only_holds_others_nests_as_deep_as_it_likes() {
        let shown = written(nested("generic", 20_000));
        assert_eq!(shown, "- text \"the end\"\n");
    }

    #[test]
    fn a_long_page_is_cut() {
        let most = BROWSER_SNAPSHOT_BYTES;
        let children: Vec<String> = (1..=most).map(|number| number.to_string()).collect();
        let mut nodes = vec![json!({"nodeId": "0", "role": {"value": "list"}})];
        nodes[0]["childIds"] = json!(children);
        let button = json!({"value": "button"});
        let item = |id| json!({"nodeId": id, "role": button, "name": {"value": "é"}});
        nodes.extend(children.iter().map(item));
        let text = written(nodes);
        let longest = "  - button \"é\"\n".len();
        assert!(text.len() > most && text.len() <= most + longest);
        let shown = cut(text);
        assert!(shown.len() <= most + 1 + GOES_ON.len());
        assert!(shown.ends_with(GOES_ON));
        assert_eq!(cut("x".repeat(most)).len(), most);
    }

    #[test]
    fn so_many_frames_are_looked_into() {
        let leaf = |number: usize| json!({"frame": {"id": number.to_string()}});
        let wide: Vec<Value> = (1..BROWSER_FRAMES * 2).map(leaf).collect();
        let wide = json!({"frame": {"id": "0"}, "childFrames": wide});
        let deep = (0..BROWSER_FRAMES * 2).rev().map(leaf);
        let deep = deep.reduce(|inner, mut outer| {
            outer["childFrames"] = json!([inner]);
            outer
        });
        let first: Vec<String> = (0..BROWSER_FRAMES).map(|it| it.to_string()).collect();
        for tree in [wide, deep.unwrap()] {
            let mut ids = Vec::new();
            frame_ids(Some(&tree), &mut ids);
            assert_eq!(ids, first);
        }
    }
}
