"""A server on the official MCP SDK for Python, over standard input and output."""

from mcp.server import MCPServer

server = MCPServer("notes")
notes: list[str] = []


@server.tool()
def add_note(text: str) -> str:
    """Keeps a note."""
    notes.append(text)
    return f"{len(notes)} notes"


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("nothing can be done")


if __name__ == "__main__":
    server.run()
