//! Resources and prompts of servers, and tools that change.

use crate::support::{Started, context, fixture_server};
use halter_mcp::limits::{
    PROMPTS_PER_SERVER, RESOURCE_LIST_BYTES, RESOURCE_PARTS, RESOURCE_URI_BYTES,
    RESOURCES_PER_SERVER,
};
use halter_protocol::{ContentPart, ToolErrorCode};
use serde_json::json;
use tokio_util::sync::CancellationToken;

async fn started(behaviour: &str) -> Started {
    Started::one(fixture_server("x", behaviour)).await
}

/// What a message of a user gets for a resource, as text.
async fn mentioned(started: &Started, uri: &str) -> Vec<String> {
    let read = started
        .servers
        .read_resource("x", uri, CancellationToken::new());
    let parts = read.await.unwrap();
    parts.iter().map(ContentPart::describe).collect()
}

/// A prompt as text, or why there is none.
async fn prompt(started: &Started, name: &str, arguments: &str) -> Result<Vec<String>, String> {
    let filled = started
        .servers
        .prompt(name, arguments, CancellationToken::new());
    match filled.await {
        Ok(parts) => Ok(parts.iter().flatten().map(ContentPart::describe).collect()),
        Err(error) => Err(error.to_string()),
    }
}

#[tokio::test]
async fn models_find_and_read_resources() {
    let started = started("resources").await;
    assert!(started.status().has_resources && started.status().has_prompts);
    let expected = "Resources of the server `x`:\n\
        - note://one (text/plain): one - The first note.\n\
        - note://picture: picture\n\
        Patterns, with names in braces to replace:\n\
        - note://by-day/{day}: by day\n";
    for input in [json!({}), json!({"server": "x"})] {
        let listed = started.call("list_mcp_resources", input).await.unwrap();
        assert_eq!(listed.to_model_text(), expected);
    }
    let read = |uri: &str| json!({"server": "x", "uri": uri});
    let one = started.call("read_mcp_resource", read("note://one")).await;
    let one = one.unwrap().to_model_text();
    assert_eq!(one, "[resource note://one]\nthe first note");
    let day = started.call("read_mcp_resource", read("note://by-day/monday"));
    assert!(
        day.await
            .unwrap()
            .to_model_text()
            .ends_with("what happened on monday")
    );
    let picture = started
        .call("read_mcp_resource", read("note://picture"))
        .await;
    assert_eq!(picture.unwrap().attachments().count(), 1);
    let missing = started.call("read_mcp_resource", read("note://no")).await;
    let missing = missing.unwrap_err();
    assert!(
        missing.message.contains("there is no note://no"),
        "{missing}"
    );
    let nobody = json!({"server": "y", "uri": "note://one"});
    let nobody = started.call("read_mcp_resource", nobody).await.unwrap_err();
    assert_eq!(nobody.message, "there is no MCP server `y`; there are: x");
    started.servers.shutdown().await;
    let stopped = started.call("read_mcp_resource", read("note://one")).await;
    assert!(stopped.unwrap_err().message.contains("is stopped"));
}

#[tokio::test]
async fn a_server_without_patterns_or_resources_says_so() {
    let without = started("resources_without_templates").await;
    let listed = without.call("list_mcp_resources", json!({})).await.unwrap();
    assert!(
        listed
            .to_model_text()
            .ends_with("- note://picture: picture\n")
    );
    without.servers.shutdown().await;
    let plain = started("plain").await;
    let listed = plain.call("list_mcp_resources", json!({})).await.unwrap();
    assert_eq!(listed.to_model_text(), "No server has resources.");
    let listed = plain.call("list_mcp_resources", json!({"server": "x"}));
    let listed = listed.await.unwrap().to_model_text();
    assert_eq!(listed, "The server `x` has no resources.\n");
    plain.servers.shutdown().await;
}

#[tokio::test]
async fn resources_and_their_lists_are_bounded() {
    let many = started("resources_many").await;
    let listed = many.call("list_mcp_resources", json!({})).await.unwrap();
    let listed = listed.to_model_text();
    let shown = listed
        .lines()
        .filter(|line| line.starts_with("- t://"))
        .count();
    assert_eq!(shown, RESOURCES_PER_SERVER);
    let note = format!("more than {RESOURCES_PER_SERVER} resources: the others are left out");
    assert!(listed.contains(&note), "{listed}");
    assert!(listed.len() <= RESOURCE_LIST_BYTES);
    let (prompts, problems) = many.servers.prompts().await;
    assert_eq!((prompts.len(), problems.len()), (PROMPTS_PER_SERVER, 0));
    many.servers.shutdown().await;

    let started = started("resources").await;
    let parts = mentioned(&started, "note://parts").await;
    assert_eq!(parts.len(), RESOURCE_PARTS + 1);
    assert_eq!(
        parts.last().unwrap(),
        &format!("[{} parts left out]", 100 - RESOURCE_PARTS)
    );
    let messages = prompt(&started, "mcp__x__long", "").await.unwrap();
    assert_eq!(messages.len(), RESOURCE_PARTS + 1);
    assert_eq!(
        mentioned(&started, "note://empty").await,
        ["[resource note://empty: nothing is in it]"]
    );
    for (bytes, refused) in [
        (RESOURCE_URI_BYTES, "no note"),
        (RESOURCE_URI_BYTES + 1, "at most"),
    ] {
        let uri = format!("note://{}", "a".repeat(bytes - "note://".len()));
        let read = started
            .servers
            .read_resource("x", &uri, CancellationToken::new());
        let error = read.await.unwrap_err().to_string();
        assert!(error.contains(refused), "{error}");
    }
    started.servers.shutdown().await;
}

#[tokio::test]
async fn a_server_that_hangs_or_dies_at_a_resource_ends_that_only() {
    let started = Started::one(fixture_server("x", "resources")).await;
    let read = |uri: &str| json!({"server": "x", "uri": uri});
    let died = started.call("read_mcp_resource", read("note://exit")).await;
    let died = died.unwrap_err();
    assert_eq!(died.code, ToolErrorCode::OutcomeUnknown);
    assert!(died.message.contains("read to death"), "{died}");
    assert_eq!(mentioned(&started, "note://one").await.len(), 1);
    tokio::time::pause();
    let context = context(CancellationToken::new());
    let hung = started.call_patiently("read_mcp_resource", read("note://hang"), &context);
    assert_eq!(hung.await.unwrap_err().code, ToolErrorCode::TimedOut);
    tokio::time::resume();
    started.servers.shutdown().await;
}

#[tokio::test]
async fn prompts_are_listed_and_filled_in() {
    let started = started("resources").await;
    let (prompts, problems) = started.servers.prompts().await;
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(prompts[0].name, "mcp__x__review");
    assert_eq!(prompts[0].description, "Review a file.");
    assert_eq!(
        prompts[0].argument_hint().as_deref(),
        Some("<path> [style]")
    );
    let odd = prompts[1].name.clone();
    assert!(odd.starts_with("mcp__x__odd_name_with_slash_"), "{odd}");
    let filled = prompt(&started, "mcp__x__review", "'a b.rs' very short").await;
    assert_eq!(
        filled.unwrap(),
        [
            "Review \"a b.rs\" in style \"very short\".",
            "[as the assistant's earlier answer]",
            "Which part?",
            "All of it.",
        ]
    );
    let filled = prompt(&started, &odd, "").await.unwrap();
    assert_eq!(filled, ["prompt odd name/with slash"]);
    let missing = prompt(&started, "mcp__x__review", "").await.unwrap_err();
    assert!(missing.contains("lacks the argument `path`"), "{missing}");
    let unknown = prompt(&started, "mcp__x__nothing", "").await.unwrap_err();
    assert!(
        unknown.contains("has no prompt /mcp__x__nothing"),
        "{unknown}"
    );
    // Names of no server are not ours.
    for other in ["mcp__y__review", "review", "mcp__x"] {
        assert_eq!(prompt(&started, other, "").await, Ok(Vec::new()), "{other}");
    }
    started.servers.shutdown().await;
}

#[tokio::test]
async fn a_tool_that_changes_has_another_definition() {
    let started = started("changes_tools").await;
    let definition = |name: &str| {
        let tool = started.tool(name)?;
        Some(tool.served_definition().unwrap().digest)
    };
    let (echo, fail) = (definition("mcp__x__echo"), definition("mcp__x__fail"));
    assert!(definition("mcp__x__slow").is_some());
    started.call("mcp__x__add", json!({})).await.unwrap();
    started.has("mcp__x__slower").await;
    assert_ne!(definition("mcp__x__echo"), echo);
    assert_eq!(definition("mcp__x__fail"), fail);
    assert_eq!(definition("mcp__x__slow"), None);
    started.servers.shutdown().await;
}
