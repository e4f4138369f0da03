"""A host on the official MCP client for Python, which drives `halter mcp serve`.

    host.py MODE HALTER          over standard input and output
    host.py MODE URL TOKEN       over HTTP

MODE is `legacy` (initialize), `auto`, or a revision without a handshake.
"""

import sys

import anyio
import mcp_types as types
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client


def server(address, token):
    if token is None:
        import os

        environment = dict(os.environ, HALTER_MODEL="offline")
        return stdio_client(
            StdioServerParameters(
                command=address, args=["mcp", "serve", "--tools"], env=environment
            )
        )
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    headers = {"Authorization": f"Bearer {token}"}
    client = httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False)
    return streamable_http_client(address, http_client=client)


asked = []


async def decide(context, params):
    """Whoever sits at the host: the first question is granted, the next is not."""
    asked.append(params.message)
    if len(asked) == 1:
        return types.ElicitResult(action="accept", content={"decision": "once"})
    return types.ElicitResult(action="decline")


async def main(mode, address, token=None):
    told = []

    async def progress(done, total, message):
        told.append(message)

    async with Client(server(address, token), mode=mode, elicitation_callback=decide) as host:
        tools = [tool.name for tool in (await host.list_tools()).tools]
        assert tools[:2] == ["run_task", "list_sessions"], tools
        assert "shell" in tools, tools

        done = await host.call_tool(
            "run_task", {"task": "Summarize this repository"}, progress_callback=progress
        )
        assert not done.is_error, done
        assert "offline model" in done.content[0].text, done
        session = done.structured_content["session_id"]
        assert told and told[0] == f"session {session}", told
        assert len(told) > 2, told

        more = await host.call_tool(
            "run_task", {"task": "Read notes.txt", "session_id": session}
        )
        assert "hello" in more.content[0].text, more

        listed = await host.call_tool("list_sessions", {"limit": 5})
        sessions = [it["session_id"] for it in listed.structured_content["sessions"]]
        assert session in sessions, listed

        # A call that a person has to approve.
        granted = await host.call_tool("shell", {"command": "sh -c 'expr 40 + 2'"})
        assert not granted.is_error and "42" in granted.content[0].text, granted
        assert len(asked) == 1 and "expr 40 + 2" in asked[0], asked
        denied = await host.call_tool("shell", {"command": "sh -c 'expr 40 + 3'"})
        assert denied.is_error and "declined" in denied.content[0].text, denied
        assert len(asked) == 2, asked

        # A call that the host gives up.
        with anyio.move_on_after(0.5) as given_up:
            await host.call_tool("shell", {"command": "sleep 3914"})
        assert given_up.cancelled_caught
        after = await host.call_tool("shell", {"command": "echo still here"})
        assert "still here" in after.content[0].text, after


anyio.run(main, *sys.argv[1:])
