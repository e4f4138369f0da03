// Reads every golden stream with the types made from the event schema. Most of
// the test is that this compiles: the unions below are told apart by their tag
// and every case has its fields.
import type { SessionEvent, MessageItemEvent } from "./events";
import { known, unknown } from "./streams";

// A union without the branch for tags that the schema does not list.
type Listed<Union, Tag extends string> = Union extends { [tag in Tag]: infer Word }
  ? string extends Word
    ? never
    : Union
  : never;
export type KnownPayload = Listed<SessionEvent["payload"], "kind">;
export type KnownMessage = Listed<MessageItemEvent["message"], "role">;
export type KnownEvent = SessionEvent & { payload: KnownPayload };

function words(message: KnownMessage): string {
  switch (message.role) {
    case "system":
      return message.text;
    case "user":
      return message.parts.map((part) => part.kind).join(" ");
    case "assistant":
      return message.replay_meta?.model ?? "";
    case "tool":
      return message.error?.message ?? message.content.kind;
  }
}

function describe(payload: KnownPayload): string {
  switch (payload.kind) {
    case "session_started":
      return payload.working_dir;
    case "session_resumed":
      return payload.kind;
    case "warning":
      return payload.message;
    case "message_item":
      return words(payload.message as KnownMessage);
    case "delta_item":
    case "thinking_delta":
      return payload.delta.text;
    case "tool_execution_started":
      return JSON.stringify(payload.call.arguments);
    case "tool_execution_completed":
      return "ok" in payload.outcome.result ? "ok" : payload.outcome.result.error.code;
    case "turn_completed":
      return String(payload.usage.output_tokens) + JSON.stringify(payload.structured_output);
    case "turn_failed":
      return payload.error.code;
    default:
      return payload.kind;
  }
}

let read = 0;
for (const event of known) {
  if (typeof describe(event.payload) !== "string") {
    throw new Error(`cannot read ${JSON.stringify(event)}`);
  }
  read += 1;
}
for (const event of unknown) {
  if (typeof event.payload.kind !== "string") {
    throw new Error(`no kind in ${JSON.stringify(event)}`);
  }
  read += 1;
}
console.log(`read ${read} events`);
