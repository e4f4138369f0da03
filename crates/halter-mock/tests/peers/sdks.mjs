// Runs the automatic tool modes of the vendors' JavaScript SDKs and of the AI SDK
// against a mock: `node sdks.mjs BASE_URL`. Prints a line per mode and exits with
// 1 if any failed.
import Anthropic from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
import OpenAI from "openai";
import { GoogleGenAI } from "@google/genai";
import { generateText, streamText, stepCountIs, tool } from "ai";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { z } from "zod";

const base = process.argv[2].replace(/\/$/, "");
const tasks = [
  ["Please look. 'mock:peer-sdk'", "found one, found two, found three"],
  ["Please look. 'mock:peer-sdk-thinking'", "found one"],
];
const description = "Looks a word up.";
const schema = {
  type: "object",
  properties: { word: { type: "string" } },
  required: ["word"],
  additionalProperties: false,
};
const find = ({ word }) => `found ${word}`;

function equal(actual, expected) {
  if (actual !== expected) {
    throw new Error(`expected ${JSON.stringify(expected)}, got ${JSON.stringify(actual)}`);
  }
}

const anthropic = new Anthropic({ baseURL: base, apiKey: "any", maxRetries: 0 });
const openai = new OpenAI({ baseURL: `${base}/v1`, apiKey: "any", maxRetries: 0 });
const lookup = betaTool({ name: "lookup", description, inputSchema: schema, run: find });
const said = (message) =>
  message.content
    .filter((block) => block.type === "text")
    .map((block) => block.text)
    .join("");

// A callable tool of the Google SDK.
const callable = {
  tool: async () => ({
    functionDeclarations: [{ name: "lookup", description, parametersJsonSchema: schema }],
  }),
  callTool: async (calls) =>
    calls.map((call) => ({
      functionResponse: { name: call.name, response: { output: find(call.args) } },
    })),
};

async function aiSdk(model, prompt, expected) {
  const tools = { lookup: tool({ description, inputSchema: z.object({ word: z.string() }), execute: find }) };
  const options = { model, prompt, tools, stopWhen: stepCountIs(5), maxRetries: 0 };
  equal((await generateText(options)).text, expected);
  const streamed = streamText({ ...options, onError: () => {} });
  equal(await streamed.text, expected);
}

const modes = {
  async "anthropic toolRunner"(prompt, expected) {
    for (const stream of [false, true]) {
      const runner = anthropic.beta.messages.toolRunner({
        model: "claude-sonnet-5",
        max_tokens: 500,
        tools: [lookup],
        messages: [{ role: "user", content: prompt }],
        stream,
      });
      equal(said(await runner.runUntilDone()), expected);
    }
  },
  async "openai runTools"(prompt, expected) {
    for (const stream of [false, true]) {
      const runner = openai.chat.completions.runTools({
        model: "gpt-4o",
        stream,
        messages: [{ role: "user", content: prompt }],
        tools: [
          {
            type: "function",
            function: { name: "lookup", description, parameters: schema, parse: JSON.parse, function: find },
          },
        ],
      });
      equal(await runner.finalContent(), expected);
    }
  },
  async "google automatic function calling"(prompt, expected) {
    const client = new GoogleGenAI({ apiKey: "any", httpOptions: { baseUrl: base } });
    const request = { model: "gemini-3-pro", contents: prompt, config: { tools: [callable] } };
    equal((await client.models.generateContent(request)).text, expected);
    let text = "";
    for await (const chunk of await client.models.generateContentStream(request)) text += chunk.text ?? "";
    equal(text.endsWith(expected), true);
  },
  "ai-sdk anthropic": (prompt, expected) =>
    aiSdk(createAnthropic({ baseURL: `${base}/v1`, apiKey: "any" })("claude-sonnet-5"), prompt, expected),
  "ai-sdk openai responses": (prompt, expected) =>
    aiSdk(createOpenAI({ baseURL: `${base}/v1`, apiKey: "any" }).responses("gpt-5.6"), prompt, expected),
  "ai-sdk openai chat": (prompt, expected) =>
    aiSdk(createOpenAI({ baseURL: `${base}/v1`, apiKey: "any" }).chat("gpt-4o"), prompt, expected),
  "ai-sdk google": (prompt, expected) =>
    aiSdk(createGoogleGenerativeAI({ baseURL: `${base}/v1beta`, apiKey: "any" })("gemini-3-pro"), prompt, expected),
  "ai-sdk openai-compatible": (prompt, expected) =>
    aiSdk(
      createOpenAICompatible({ name: "mock", baseURL: `${base}/local/v1`, apiKey: "any" })("any-model"),
      prompt,
      expected,
    ),
};

let failed = 0;
for (const [name, mode] of Object.entries(modes)) {
  try {
    for (const [prompt, expected] of tasks) await mode(prompt, expected);
    console.log(`ok ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`failed ${name}: ${error.stack ?? error}`);
  }
}
process.exit(failed ? 1 : 0);
