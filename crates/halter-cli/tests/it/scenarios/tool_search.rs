//! Tools that are sent when the model asks for them, in the way of each wire.

use super::stage::{Played, Stage};
use serde_json::Value;

/// The settings under which a service takes tools in the midst of a
/// conversation, where its wire has that, and those under which it does not.
const WAYS: [&str; 2] = ["", "native_tool_loading = true\n"];

/// The names of the tools that a body holds, without those whose definition is
/// only there to be referred to.
fn sent(body: &Value) -> Vec<&str> {
    let tools = body["tools"].as_array().unwrap();
    let functions = tools[0]["functionDeclarations"].as_array().unwrap_or(tools);
    let sent = functions
        .iter()
        .filter(|tool| tool.get("defer_loading").is_none());
    let name = |tool: &'_ Value| tool["function"].get("name").is_some();
    let names = sent.map(|tool| match name(tool) {
        true => tool["function"]["name"].as_str().unwrap(),
        false => tool["name"].as_str().unwrap(),
    });
    names.collect()
}

fn play(stage: &Stage, scenario: &str, way: &str) -> Played {
    stage.configure(way);
    stage.play(scenario)
}

/// A direct call works after the search, whatever the wire; the service refuses
/// a call of a tool that was never sent.
pub fn tool_search(stage: &Stage) {
    for way in WAYS {
        let played = play(stage, "tool_search", way);
        let answer = played.completed();
        assert!(answer.starts_with("Found and used: {"), "{answer}");
        assert!(answer.contains("\"tasks\":[]"), "{answer}");
        let ok = |tool: &str| (tool.to_owned(), "ok".to_owned());
        assert_eq!(played.tools(), [ok("tool_search"), ok("task")]);
        let searched = &played.all("tool_execution_completed")[0];
        let remembered = &searched["outcome"]["remembered"];
        assert_eq!(remembered[0]["kind"], "tool_loaded", "{remembered}");
        assert_eq!(remembered[0]["spec"]["name"], "task");
        let bodies = stage.bodies();
        let bodies = &bodies[bodies.len() - 3..];
        assert!(!sent(&bodies[0]).contains(&"task"), "{}", bodies[0]);
        let is_native = !way.is_empty() && matches!(stage.provider(), "anthropic" | "openai");
        let carries = sent(&bodies[0]).contains(&"call_tool");
        assert_eq!(carries, !is_native, "{}", bodies[0]);
        for body in &bodies[1..] {
            assert_eq!(sent(body), sent(&bodies[0]), "{body}");
            let text = body.to_string();
            let native =
                text.contains("\"tool_reference\"") || text.contains("\"additional_tools\"");
            assert_eq!(native, is_native, "{body}");
        }
    }
    stage.assert_untouched();
}

/// A call that comes too early is corrected, and its tool is there from then on.
pub fn tool_search_skipped(stage: &Stage) {
    for way in WAYS {
        let played = play(stage, "tool_search_skipped", way);
        assert!(played.completed().starts_with("Corrected: "));
        let early = ("task".to_owned(), "tool_not_loaded".to_owned());
        assert_eq!(played.tools(), [early]);
        assert!(played.all("tool_execution_started").is_empty());
        let bodies = stage.bodies();
        let last = bodies.last().unwrap().to_string();
        assert!(last.contains("It is loaded now"), "{last}");
        // The model goes on in a later turn, in another process.
        let session = played.session();
        let again = stage.play_with("tool_search", &["--session", &session]);
        assert!(again.completed().starts_with("Found and used: {"));
        let searched = &again.all("tool_execution_completed")[0]["outcome"];
        assert!(searched.get("remembered").is_none(), "{searched}");
    }
}

/// The most bytes of the first request, with room for a longer directory.
const FIRST_REQUEST: usize = 8 * 1024 - 200;

/// Settings under which every tool is of use: those of the web, those of a
/// language server, which a plugin brings, and the one for skills.
fn all_tools(stage: &Stage) -> String {
    let plugin = stage.place.root().join("plugins/demo");
    std::fs::create_dir_all(plugin.join(".claude-plugin")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(plugin.join(name), text).unwrap();
    write(".claude-plugin/plugin.json", r#"{"name": "demo"}"#);
    let server = r#"{"x": {"command": "/bin/true", "extensionToLanguage": {".x": "x"}}}"#;
    write(".lsp.json", server);
    let skill = "---\nname: greet\ndescription: How to greet.\n---\nSay hello.\n";
    std::fs::create_dir_all(plugin.join("skills/greet")).unwrap();
    write("skills/greet/SKILL.md", skill);
    let roots = stage.place.root().join("plugins");
    format!(
        "[resources.plugins]\nroots = [{:?}]\n\
         [policy.network]\nenabled = true\nallowed_hosts = [\"*\"]\n\
         [tools.web_search]\nprovider = \"searxng\"\nurl = \"http://127.0.0.1:1\"\n\
         [browser]\ncdp_url = \"ws://127.0.0.1:1\"\n",
        roots.to_str().unwrap()
    )
}

/// The first request with all tools, as the service got it, in bytes. What the
/// service leaves out until it is searched for is not counted.
pub fn first_request_is_small(stage: &Stage) {
    for way in WAYS {
        stage.configure(&format!("{way}{}", all_tools(stage)));
        // Somebody can be asked.
        let input = ["--approvals", "stdin"];
        stage.play_with("streaming_text", &input).completed();
        let bodies = stage.bodies();
        let mut body = bodies.last().unwrap().clone();
        let tools = body["tools"].as_array_mut().unwrap();
        tools.retain(|tool| tool.get("defer_loading").is_none());
        let bytes = |value: &Value| serde_json::to_vec(value).unwrap().len();
        let (tools, whole) = (bytes(&body["tools"]), bytes(&body));
        let mut eager = vec![
            "read",
            "glob",
            "grep",
            "write",
            "edit",
            "shell",
            "tool_search",
        ];
        if way.is_empty() || !matches!(stage.provider(), "anthropic" | "openai") {
            eager.push("call_tool");
        }
        assert_eq!(sent(&body), eager);
        let text = body.to_string();
        for deferred in [
            "skill",
            "web_search",
            "browser",
            "ask_user",
            "diagnostics",
            "references",
        ] {
            let told = text.contains(&format!("\\n{deferred}: "));
            assert!(told, "{deferred} is not told of: {text}");
        }
        assert!(text.contains("load it with the `skill` tool"), "{text}");
        assert!(tools <= 12 * 1024, "{tools} bytes of tools");
        assert!(whole <= FIRST_REQUEST, "{whole} bytes, {tools} of tools");
    }
}
