//! Tools of servers of the Model Context Protocol.

use super::stage::Stage;

/// Settings with the fixture as a server.
pub fn with_server(more: &str) -> String {
    let (program, arguments) = crate::mcp::fixture();
    format!(
        "[permissions]\nallow = [\"mcp__fixture__echo\"]\n[mcp.servers.fixture]\n\
         command = \"{program}\"\nargs = {arguments:?}\nenv = {{ MCP_FIXTURE = \"plain\" }}\n{more}"
    )
}

pub fn mcp_stdio(stage: &Stage) {
    stage.configure(&with_server("required = true\n"));
    let played = stage.play("mcp_stdio");
    assert_eq!(played.completed(), "The server said: hello over stdio");
    let ok = |tool: &str| (tool.to_owned(), "ok".to_owned());
    assert_eq!(
        played.tools(),
        [ok("tool_search"), ok("mcp__fixture__echo")]
    );
    let bodies = stage.requests("mcp_stdio", &[0, 1, 2]);
    // Named in the midst of the conversation, and never in what is before it.
    assert!(bodies[0].to_string().contains("mcp__fixture__echo"));
    assert!(
        !bodies[0]["tools"]
            .to_string()
            .contains("mcp__fixture__echo")
    );
    stage.assert_untouched();
}

/// A plugin whose server is the fixture, started by a script of the plugin.
pub fn plugin_with_server(place: &crate::place::Place) {
    use std::os::unix::fs::PermissionsExt as _;
    let root = place.root().join("plugins/demo");
    std::fs::create_dir_all(root.join(".claude-plugin")).unwrap();
    let manifest = r#"{"name": "demo", "version": "1.0.0"}"#;
    std::fs::write(root.join(".claude-plugin/plugin.json"), manifest).unwrap();
    let (program, arguments) = crate::mcp::fixture();
    let entry = serde_json::json!({"mcpServers": {"fixture": {
        "command": "${CLAUDE_PLUGIN_ROOT}/server",
        "args": arguments,
        "env": {"MCP_FIXTURE": "plain", "PROGRAM": program},
    }}});
    std::fs::write(root.join(".mcp.json"), entry.to_string()).unwrap();
    // The variable is also there for the server itself.
    let script = "#!/bin/sh\ntest -d \"$CLAUDE_PLUGIN_ROOT\" && exec \"$PROGRAM\" \"$@\"\n";
    let file = root.join("server");
    std::fs::write(&file, script).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

pub fn plugin_tool_roundtrip(stage: &Stage) {
    plugin_with_server(&stage.place);
    let roots = stage.place.root().join("plugins");
    stage.configure(&format!(
        "[permissions]\nallow = [\"mcp__plugin_demo_fixture\"]\n\
         [resources.plugins]\nroots = [{roots:?}]\n"
    ));
    let played = stage.play("plugin_tool_roundtrip");
    assert_eq!(played.completed(), "The plugin said: hello from the mock");
    let ok = |tool: &str| (tool.to_owned(), "ok".to_owned());
    let called = [ok("tool_search"), ok("mcp__plugin_demo_fixture__echo")];
    assert_eq!(played.tools(), called);
    stage.requests("plugin_tool_roundtrip", &[0, 1, 2]);
    stage.assert_untouched();
}
