"""Runs the automatic tool modes of the vendors' Python SDKs against a mock.

    python sdks.py BASE_URL

Prints a line per mode and exits with 1 if any failed.
"""

import json
import sys
import traceback

import anthropic
import openai
from anthropic import beta_tool
from google import genai
from google.genai import types
from openai.lib.responses_tool_runner import RegisteredFunction, ResponsesToolRunner

BASE = sys.argv[1].rstrip("/")
PROMPT = "Please look. 'mock:peer-sdk'"
EXPECTED = "found one, found two, found three"
THINK_PROMPT = "Please look. 'mock:peer-sdk-thinking'"
THINK_EXPECTED = "found one"


def equal(actual, expected):
    assert actual == expected, f"expected {expected!r}, got {actual!r}"


@beta_tool
def lookup(word: str) -> str:
    """Looks a word up.

    Args:
        word: The word.
    """
    return f"found {word}"


def anthropic_client():
    return anthropic.Anthropic(base_url=BASE, api_key="any", max_retries=0)


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


def anthropic_tool_runner():
    for prompt, expected in [(PROMPT, EXPECTED), (THINK_PROMPT, THINK_EXPECTED)]:
        runner = anthropic_client().beta.messages.tool_runner(
            model="claude-sonnet-5",
            max_tokens=500,
            tools=[lookup],
            messages=[{"role": "user", "content": prompt}],
        )
        equal(text_of(runner.until_done()), expected)


def anthropic_streaming_tool_runner():
    runner = anthropic_client().beta.messages.tool_runner(
        model="claude-sonnet-5",
        max_tokens=500,
        tools=[lookup],
        messages=[{"role": "user", "content": PROMPT}],
        stream=True,
    )
    last = None
    for stream in runner:
        last = stream.get_final_message()
    equal(text_of(last), EXPECTED)


def openai_client():
    return openai.OpenAI(base_url=f"{BASE}/v1", api_key="any", max_retries=0)


SCHEMA = {
    "type": "object",
    "properties": {"word": {"type": "string"}},
    "required": ["word"],
    "additionalProperties": False,
}


def openai_responses_runner():
    function = RegisteredFunction(
        {"type": "function", "name": "lookup", "description": "Looks a word up.", "parameters": SCHEMA, "strict": True},
        lambda arguments: f"found {arguments['word']}",
    )
    for stream in (False, True):
        for prompt, expected in [(PROMPT, EXPECTED), (THINK_PROMPT, THINK_EXPECTED)]:
            runner = ResponsesToolRunner(functions=[function])
            response = runner.run(openai_client(), {"model": "gpt-5.6", "input": prompt}, max_steps=5, stream=stream)
            equal(response.output_text, expected)


def openai_stored_responses():
    client = openai_client()
    tools = [{"type": "function", "name": "lookup", "parameters": SCHEMA, "strict": True}]
    response = client.responses.create(model="gpt-5.6", input=PROMPT, tools=tools)
    equal(client.responses.retrieve(response.id).id, response.id)
    for _ in range(5):
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            break
        outputs = [
            {
                "type": "function_call_output",
                "call_id": call.call_id,
                "output": f"found {json.loads(call.arguments)['word']}",
            }
            for call in calls
        ]
        response = client.responses.create(
            model="gpt-5.6", input=outputs, tools=tools, previous_response_id=response.id
        )
    equal(response.output_text, EXPECTED)


def find(word: str) -> str:
    """Looks a word up."""
    return f"found {word}"


find.__name__ = "lookup"


def genai_client():
    return genai.Client(api_key="any", http_options=types.HttpOptions(base_url=BASE))


def genai_automatic_function_calling():
    client = genai_client()
    for prompt, expected in [(PROMPT, EXPECTED), (THINK_PROMPT, THINK_EXPECTED)]:
        response = client.models.generate_content(
            model="gemini-3-pro", contents=prompt, config=types.GenerateContentConfig(tools=[find])
        )
        equal(response.text, expected)


def genai_automatic_chat():
    client = genai_client()
    chat = client.chats.create(model="gemini-3-pro", config=types.GenerateContentConfig(tools=[find]))
    equal(chat.send_message(PROMPT).text, EXPECTED)
    pieces = chat.send_message_stream(PROMPT)
    texts = [piece.text or "" for piece in pieces]
    assert "".join(texts).endswith(EXPECTED), texts


MODES = [
    anthropic_tool_runner,
    anthropic_streaming_tool_runner,
    openai_responses_runner,
    openai_stored_responses,
    genai_automatic_function_calling,
    genai_automatic_chat,
]


def main():
    failed = 0
    for mode in MODES:
        try:
            mode()
            print(f"ok {mode.__name__}")
        except Exception:  # the others still run
            failed += 1
            print(f"failed {mode.__name__}")
            traceback.print_exc(file=sys.stdout)
    sys.exit(1 if failed else 0)


main()
