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
