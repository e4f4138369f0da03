"""Runs the vendors' own SDKs against a halter-mock service.

    python conversations.py BASE_URL

Each conversation asserts what the SDK made of the answers; the service itself
refuses requests a strict server would refuse. Prints one line per conversation
and exits with 1 if any failed.
"""

import base64
import json
import sys
import traceback

import anthropic
import openai
from google import genai
from google.genai import types

BASE = sys.argv[1].rstrip("/")
KEY = "sk-not-a-secret"

READ_SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string", "description": "The file."}},
    "required": ["path"],
}
RESULT = json.dumps({"path": "fixture.txt", "content": "parity fixture"})
READ_PROMPT = "Please read it. mock:read_file_roundtrip"
READ_ANSWER = "The file says: parity fixture"
THINK_PROMPT = "Please look. mock:thinking_tool"
IMAGE_PROMPT = "Please look at the picture. mock:image_result"
IMAGE_ANSWER = "I see 1 images."
# Not much of a picture, but its bytes need both odd letters of base64.
PNG = b"\x89PNG\r\n\x1a\n\xff\xfe\xfb\xef\xbe\xff"
PNG_BASE64 = base64.b64encode(PNG).decode()


def equal(actual, expected):
    assert actual == expected, f"expected {expected!r}, got {actual!r}"


# Anthropic


def anthropic_client():
    return anthropic.Anthropic(base_url=BASE, api_key=KEY, max_retries=0)


ANTHROPIC_TOOLS = [
    {"name": name, "description": name, "input_schema": READ_SCHEMA} for name in ("read", "glob")
]


def anthropic_text():
    message = anthropic_client().messages.create(
        model="claude-sonnet-5",
        max_tokens=500,
        messages=[{"role": "user", "content": "hi mock:token_cost_reporting"}],
    )
    equal(message.content[0].text, "The meter is running.")
    equal(message.stop_reason, "end_turn")
    equal(message.usage.input_tokens, 1000)
    equal(message.usage.cache_read_input_tokens, 200)
    equal(message.usage.cache_creation_input_tokens, 30)
    equal(message.usage.output_tokens, 500)


def anthropic_streaming():
    pieces = []
    with anthropic_client().messages.stream(
        model="claude-sonnet-5",
        max_tokens=500,
        messages=[{"role": "user", "content": "hi mock:streaming_text"}],
    ) as stream:
        for text in stream.text_stream:
            pieces.append(text)
        final = stream.get_final_message()
    equal(pieces, ["Mock streaming ", "says hello."])
    equal(final.stop_reason, "end_turn")
    equal(final.usage.output_tokens, 6)


def anthropic_tools():
    client = anthropic_client()
    messages = [{"role": "user", "content": READ_PROMPT}]
    first = client.messages.create(
        model="claude-sonnet-5", max_tokens=500, messages=messages, tools=ANTHROPIC_TOOLS
    )
    equal(first.stop_reason, "tool_use")
    call = first.content[0]
    equal((call.name, call.input), ("read", {"path": "fixture.txt"}))
    messages += [
        {"role": "assistant", "content": first.content},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": call.id, "content": RESULT}],
        },
    ]
    last = client.messages.create(
        model="claude-sonnet-5", max_tokens=500, messages=messages, tools=ANTHROPIC_TOOLS
    )
    equal(last.content[0].text, READ_ANSWER)


def anthropic_image_result():
    client = anthropic_client()
    messages = [{"role": "user", "content": IMAGE_PROMPT}]
    first = client.messages.create(
        model="claude-sonnet-5", max_tokens=500, messages=messages, tools=ANTHROPIC_TOOLS
    )
    source = {"type": "base64", "media_type": "image/png", "data": PNG_BASE64}
    result = {
        "type": "tool_result",
        "tool_use_id": first.content[0].id,
        "content": [{"type": "text", "text": "a picture"}, {"type": "image", "source": source}],
    }
    messages += [
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [result]},
    ]
    last = client.messages.create(
        model="claude-sonnet-5", max_tokens=500, messages=messages, tools=ANTHROPIC_TOOLS
    )
    equal(last.content[0].text, IMAGE_ANSWER)


def anthropic_streamed_thinking_tools():
    client = anthropic_client()
    messages = [{"role": "user", "content": THINK_PROMPT}]
    for _ in range(3):
        with client.messages.stream(
            model="claude-sonnet-5",
            max_tokens=5000,
            messages=messages,
            tools=ANTHROPIC_TOOLS,
            thinking={"type": "adaptive"},
        ) as stream:
            answer = stream.get_final_message()
        calls = [block for block in answer.content if block.type == "tool_use"]
        messages.append({"role": "assistant", "content": answer.content})
        if not calls:
            break
        messages.append(
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": call.id, "content": "ok"}
                    for call in calls
                ],
            }
        )
    equal(answer.content[0].text, "Both steps are done.")


def anthropic_models_and_count():
    client = anthropic_client()
    equal([model.id for model in client.models.list()], ["mock-large", "mock-small"])
    equal(client.models.retrieve("mock-small").id, "mock-small")
    count = client.messages.count_tokens(
        model="claude-sonnet-5", messages=[{"role": "user", "content": "hello"}]
    )
    assert count.input_tokens > 0


def anthropic_errors():
    try:
        anthropic_client().messages.create(
            model="claude-sonnet-5",
            max_tokens=500,
            messages=[{"role": "user", "content": "mock:rate_limited"}],
        )
    except anthropic.RateLimitError as error:
        equal(error.body["error"]["type"], "rate_limit_error")
    else:
        raise AssertionError("no error")
    retrying = anthropic.Anthropic(base_url=BASE, api_key=KEY, max_retries=2)
    message = retrying.messages.create(
        model="claude-sonnet-5",
        max_tokens=500,
        messages=[{"role": "user", "content": "mock:rate_limited_once anthropic sdk"}],
    )
    equal(message.content[0].text, "Let in.")
    try:
        with anthropic_client().messages.stream(
            model="claude-sonnet-5",
            max_tokens=500,
            messages=[{"role": "user", "content": "mock:error_after_ok"}],
        ) as stream:
            stream.get_final_message()
    except anthropic.APIStatusError as error:
        assert "Overloaded" in str(error), str(error)
    else:
        raise AssertionError("no error")


# OpenAI Responses


def openai_client():
    return openai.OpenAI(base_url=f"{BASE}/openai/v1", api_key=KEY, max_retries=0)


RESPONSES_TOOLS = [
    {"type": "function", "name": name, "description": name, "parameters": READ_SCHEMA, "strict": False}
    for name in ("read", "glob")
]


def responses_text():
    response = openai_client().responses.create(
        model="gpt-5.6", input="hi mock:token_cost_reporting"
    )
    equal(response.output_text, "The meter is running.")
    equal(response.status, "completed")
    equal(response.usage.input_tokens, 1230)
    equal(response.usage.input_tokens_details.cached_tokens, 200)
    equal(response.usage.output_tokens, 500)


def responses_streaming():
    pieces = []
    with openai_client().responses.stream(
        model="gpt-5.6", input="hi mock:streaming_text"
    ) as stream:
        for event in stream:
            if event.type == "response.output_text.delta":
                pieces.append(event.delta)
        final = stream.get_final_response()
    equal(pieces, ["Mock streaming ", "says hello."])
    equal(final.output_text, "Mock streaming says hello.")


def responses_tools():
    client = openai_client()
    items = [{"role": "user", "content": READ_PROMPT}]
    first = client.responses.create(
        model="gpt-5.6", input=items, tools=RESPONSES_TOOLS, store=False
    )
    call = first.output[0]
    equal((call.type, call.name), ("function_call", "read"))
    equal(json.loads(call.arguments), {"path": "fixture.txt"})
    items += first.output
    items.append({"type": "function_call_output", "call_id": call.call_id, "output": RESULT})
    last = client.responses.create(
        model="gpt-5.6", input=items, tools=RESPONSES_TOOLS, store=False
    )
    equal(last.output_text, READ_ANSWER)


def responses_image_result():
    client = openai_client()
    items = [{"role": "user", "content": IMAGE_PROMPT}]
    first = client.responses.create(
        model="gpt-5.6", input=items, tools=RESPONSES_TOOLS, store=False
    )
    items += first.output
    output = [
        {"type": "input_text", "text": "a picture"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG_BASE64}"},
    ]
    call_id = first.output[0].call_id
    items.append({"type": "function_call_output", "call_id": call_id, "output": output})
    last = client.responses.create(
        model="gpt-5.6", input=items, tools=RESPONSES_TOOLS, store=False
    )
    equal(last.output_text, IMAGE_ANSWER)


def responses_streamed_thinking_tools():
    client = openai_client()
    items = [{"role": "user", "content": THINK_PROMPT}]
    for _ in range(3):
        with client.responses.stream(
            model="gpt-5.6",
            input=items,
            tools=RESPONSES_TOOLS,
            store=False,
            include=["reasoning.encrypted_content"],
            reasoning={"effort": "low", "summary": "auto"},
        ) as stream:
            for _event in stream:
                pass
            answer = stream.get_final_response()
        calls = [item for item in answer.output if item.type == "function_call"]
        items += [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in answer.output]
        if not calls:
            break
        items += [
            {"type": "function_call_output", "call_id": call.call_id, "output": "ok"}
            for call in calls
        ]
    equal(answer.output_text, "Both steps are done.")


def responses_errors_and_count():
    client = openai_client()
    count = client.responses.input_tokens.count(model="gpt-5.6", input="hello")
    assert count.input_tokens > 0
    try:
        client.responses.create(model="gpt-5.6", input="mock:spend_cap")
    except openai.RateLimitError as error:
        equal(error.code, "insufficient_quota")
    else:
        raise AssertionError("no error")
    final = client.responses.create(model="gpt-5.6", input="mock:max_tokens")
    equal((final.status, final.incomplete_details.reason), ("incomplete", "max_output_tokens"))


# Chat Completions

CHAT_TOOLS = [
    {"type": "function", "function": {"name": name, "description": name, "parameters": READ_SCHEMA}}
    for name in ("read", "glob", "grep")
]


def chat_text():
    completion = openai_client().chat.completions.create(
        model="gpt-4o", messages=[{"role": "user", "content": "hi mock:token_cost_reporting"}]
    )
    equal(completion.choices[0].message.content, "The meter is running.")
    equal(completion.choices[0].finish_reason, "stop")
    equal(completion.usage.prompt_tokens, 1230)
    equal(completion.usage.prompt_tokens_details.cached_tokens, 200)


def chat_streaming():
    pieces, usage = [], None
    for chunk in openai_client().chat.completions.create(
        model="gpt-4o",
        messages=[{"role": "user", "content": "hi mock:streaming_text"}],
        stream=True,
        stream_options={"include_usage": True},
    ):
        if chunk.choices and chunk.choices[0].delta.content:
            pieces.append(chunk.choices[0].delta.content)
        usage = chunk.usage or usage
    equal(pieces, ["Mock streaming ", "says hello."])
    equal(usage.completion_tokens, 6)


def chat_tools():
    client = openai_client()
    messages = [{"role": "user", "content": "look mock:parallel_tools"}]
    with client.chat.completions.stream(
        model="gpt-4o", messages=messages, tools=CHAT_TOOLS
    ) as stream:
        for _event in stream:
            pass
        first = stream.get_final_completion()
    message = first.choices[0].message
    equal(first.choices[0].finish_reason, "tool_calls")
    equal([call.function.name for call in message.tool_calls], ["read", "glob", "grep"])
    messages.append(message.model_dump(exclude_none=True, exclude={"parsed"}))
    for call in messages[-1]["tool_calls"]:
        call["function"].pop("parsed_arguments", None)
        call.pop("index", None)
    for call in message.tool_calls:
        messages.append({"role": "tool", "tool_call_id": call.id, "content": call.function.name})
    last = client.chat.completions.create(model="gpt-4o", messages=messages, tools=CHAT_TOOLS)
    equal(last.choices[0].message.content, "The first result was: read")


def chat_models():
    equal([model.id for model in openai_client().models.list()], ["mock-large", "mock-small"])


# Gemini


def gemini_client():
    return genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=BASE))


def gemini_config(**more):
    return types.GenerateContentConfig(
        tools=[
            types.Tool(
                function_declarations=[
                    types.FunctionDeclaration(
                        name=name, description=name, parameters_json_schema=READ_SCHEMA
                    )
                    for name in ("read", "glob", "grep")
                ]
            )
        ],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        **more,
    )


def gemini_text():
    client = gemini_client()
    response = client.models.generate_content(
        model="gemini-3-pro",
        contents="hi mock:token_cost_reporting",
        config=types.GenerateContentConfig(system_instruction="Be brief.", max_output_tokens=100),
    )
    equal(response.text, "The meter is running.")
    equal(response.usage_metadata.prompt_token_count, 1230)
    equal(response.usage_metadata.cached_content_token_count, 200)
    equal(response.candidates[0].finish_reason, types.FinishReason.STOP)


def gemini_streaming():
    client = gemini_client()
    pieces = [
        chunk.text
        for chunk in client.models.generate_content_stream(
            model="gemini-3-pro", contents="hi mock:streaming_text"
        )
        if chunk.text
    ]
    equal(pieces, ["Mock streaming ", "says hello."])


def gemini_user(text):
    return types.Content(role="user", parts=[types.Part(text=text)])


def gemini_answers(calls, output):
    return types.Content(
        role="user",
        parts=[
            types.Part(
                function_response=types.FunctionResponse(
                    id=call.id, name=call.name, response={"output": output}
                )
            )
            for call in calls
        ],
    )


def gemini_tools():
    client = gemini_client()
    contents = [gemini_user(READ_PROMPT)]
    first = client.models.generate_content(
        model="gemini-3-pro", contents=contents, config=gemini_config()
    )
    call = first.function_calls[0]
    equal((call.name, call.args), ("read", {"path": "fixture.txt"}))
    contents += [first.candidates[0].content, gemini_answers(first.function_calls, RESULT)]
    last = client.models.generate_content(
        model="gemini-3-pro", contents=contents, config=gemini_config()
    )
    equal(last.text, READ_ANSWER)


def gemini_image_result():
    client = gemini_client()
    contents = [gemini_user(IMAGE_PROMPT)]
    first = client.models.generate_content(
        model="gemini-3-pro", contents=contents, config=gemini_config()
    )
    answers = gemini_answers(first.function_calls, "a picture")
    answers.parts[0].function_response.parts = [
        types.FunctionResponsePart(
            inline_data=types.FunctionResponseBlob(mime_type="image/png", data=PNG)
        )
    ]
    contents += [first.candidates[0].content, answers]
    last = client.models.generate_content(
        model="gemini-3-pro", contents=contents, config=gemini_config()
    )
    equal(last.text, IMAGE_ANSWER)


def gemini_streamed_thinking_tools():
    client = gemini_client()
    contents = [gemini_user(THINK_PROMPT)]
    thinking = types.ThinkingConfig(include_thoughts=True, thinking_level="LOW")
    for _ in range(3):
        parts = []
        for chunk in client.models.generate_content_stream(
            model="gemini-3-pro",
            contents=contents,
            config=gemini_config(thinking_config=thinking),
        ):
            parts += chunk.candidates[0].content.parts
        calls = [part.function_call for part in parts if part.function_call]
        text = "".join(part.text for part in parts if part.text and not part.thought)
        if not calls:
            break
        contents += [types.Content(role="model", parts=parts), gemini_answers(calls, "ok")]
    equal(text, "Both steps are done.")


def gemini_models_and_count():
    client = gemini_client()
    equal(
        [model.name for model in client.models.list()],
        ["models/mock-large", "models/mock-small"],
    )
    count = client.models.count_tokens(model="gemini-3-pro", contents="hello")
    assert count.total_tokens > 0


def gemini_errors():
    client = gemini_client()
    try:
        client.models.generate_content(model="gemini-3-pro", contents="mock:forbidden")
    except genai.errors.ClientError as error:
        equal((error.code, error.status), (403, "PERMISSION_DENIED"))
    else:
        raise AssertionError("no error")


CONVERSATIONS = [
    anthropic_text,
    anthropic_streaming,
    anthropic_tools,
    anthropic_image_result,
    anthropic_streamed_thinking_tools,
    anthropic_models_and_count,
    anthropic_errors,
    responses_text,
    responses_streaming,
    responses_tools,
    responses_image_result,
    responses_streamed_thinking_tools,
    responses_errors_and_count,
    chat_text,
    chat_streaming,
    chat_tools,
    chat_models,
    gemini_text,
    gemini_streaming,
    gemini_tools,
    gemini_image_result,
    gemini_streamed_thinking_tools,
    gemini_models_and_count,
    gemini_errors,
]


def main():
    failed = 0
    for conversation in CONVERSATIONS:
        try:
            conversation()
            print(f"ok {conversation.__name__}")
        except Exception:  # every failure is reported, none hides the next
            failed += 1
            print(f"FAILED {conversation.__name__}\n{traceback.format_exc()}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
