//! The check that every tool call of a transcript has its result, and every
//! result its call, where model services demand them.

use halter_protocol::{Message, ToolCall, ToolCallId, ToolName, Transcript};
use std::collections::{HashSet, VecDeque};

/// Checks that the calls of each assistant message are answered by exactly one
/// tool message each, in call order, directly after it.
///
/// ```
/// use halter_protocol::{Message, Transcript, UserMessage};
///
/// let transcript: Transcript = [Message::User(UserMessage::text("hello"))].into_iter().collect();
/// assert_eq!(halter_providers::check_pairing(&transcript), Ok(()));
/// ```
pub fn check_pairing(transcript: &Transcript) -> Result<(), PairingError> {
    let mut open: VecDeque<ToolCall> = VecDeque::new();
    for (index, message) in transcript.iter().enumerate() {
        match message.as_ref() {
            Message::Tool(result) => close_call(&mut open, &result.call_id, index)?,
            other => {
                if let Some(call) = open.pop_front() {
                    return Err(missing(call, index, role(other)));
                }
                if let Message::Assistant(assistant) = other {
                    open.extend(assistant.tool_calls());
                    refuse_repeated_ids(&open, index)?;
                }
            }
        }
    }
    match open.pop_front() {
        Some(call) => Err(missing(call, transcript.len(), "nothing")),
        None => Ok(()),
    }
}

fn close_call(
    open: &mut VecDeque<ToolCall>,
    call_id: &ToolCallId,
    index: usize,
) -> Result<(), PairingError> {
    match open.front() {
        Some(call) if call.id == *call_id => {
            open.pop_front();
            Ok(())
        }
        Some(call) if open.iter().any(|later| later.id == *call_id) => {
            Err(PairingError::OutOfOrder {
                expected: call.id.clone(),
                found: call_id.clone(),
                index,
            })
        }
        _ => Err(PairingError::ResultWithoutCall {
            call_id: call_id.clone(),
            index,
        }),
    }
}

fn refuse_repeated_ids(open: &VecDeque<ToolCall>, index: usize) -> Result<(), PairingError> {
    let mut seen = HashSet::new();
    match open.iter().find(|call| !seen.insert(&call.id)) {
        Some(call) => Err(PairingError::RepeatedCallId {
            call_id: call.id.clone(),
            index,
        }),
        None => Ok(()),
    }
}

fn missing(call: ToolCall, index: usize, found: &'static str) -> PairingError {
    PairingError::CallWithoutResult {
        call_id: call.id,
        tool_name: call.name,
        index,
        found,
    }
}

fn role(message: &Message) -> &'static str {
    match message {
        Message::System(_) => "a system message",
        Message::User(_) => "a user message",
        Message::Assistant(_) => "an assistant message",
        Message::Tool(_) => "a tool message",
        _ => "another message",
    }
}

/// A transcript that a strict model service would refuse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PairingError {
    /// A call is not answered where its answer belongs.
    #[error(
        "call '{call_id}' of tool '{tool_name}' has no result: {found} stands at message {index}, where its result belongs"
    )]
    CallWithoutResult {
        /// The call.
        call_id: ToolCallId,
        /// The tool it calls.
        tool_name: ToolName,
        /// Where the result belongs, counted from 0.
        index: usize,
        /// What stands there.
        found: &'static str,
    },
    /// A result answers a call that is not open.
    #[error("the result at message {index} answers '{call_id}', which is no open call")]
    ResultWithoutCall {
        /// The call it claims to answer.
        call_id: ToolCallId,
        /// Where it stands, counted from 0.
        index: usize,
    },
    /// Results do not have the order of their calls.
    #[error("the result at message {index} answers '{found}', but '{expected}' was called first")]
    OutOfOrder {
        /// The call whose turn it is.
        expected: ToolCallId,
        /// The call it answers.
        found: ToolCallId,
        /// Where it stands, counted from 0.
        index: usize,
    },
    /// Two calls of one message share an id.
    #[error("the assistant message at {index} has two calls with the id '{call_id}'")]
    RepeatedCallId {
        /// The shared id.
        call_id: ToolCallId,
        /// Where the message stands, counted from 0.
        index: usize,
    },
}

impl PairingError {
    /// The stable reason.
    pub fn code(&self) -> &'static str {
        match self {
            Self::CallWithoutResult { .. } => "call_without_result",
            Self::ResultWithoutCall { .. } => "result_without_call",
            Self::OutOfOrder { .. } => "results_out_of_order",
            Self::RepeatedCallId { .. } => "repeated_call_id",
        }
    }
}
