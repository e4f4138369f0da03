//! Tool calls put together from the fragments of a stream.
//!
//! A call's id and name should come once and its arguments in pieces under
//! its `index`. Servers in the field leave out the index, repeat or empty the
//! id, split the name, send the arguments as an object, or give two calls one
//! index; each of these still gives the calls that were meant.

use super::kept::{KeptCall, keep};
use crate::limits::ANSWER_TOOL_CALLS;
use halter_protocol::{BlockId, ProviderError, ProviderErrorKind, StreamEvent, ToolCallId};
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

/// The calls of one answer.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    /// Calls before this one are ended.
    ended: usize,
}

#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    /// The id the server gave, if any.
    id: Option<String>,
    name: String,
    arguments: String,
    members: Map<String, Value>,
    block: Option<BlockId>,
    ended: bool,
}

/// Where the ids of an answer come from.
pub(super) struct Names<'a> {
    /// Unique per answer.
    pub stem: &'a str,
    /// Blocks so far.
    pub blocks: &'a mut usize,
}

impl Names<'_> {
    pub fn block(&mut self) -> BlockId {
        *self.blocks += 1;
        BlockId(format!("blk_{}_{}", self.stem, self.blocks))
    }
}

/// What one fragment says.
struct Fragment {
    index: Option<u64>,
    id: Option<String>,
    name: String,
    arguments: Arguments,
    members: Map<String, Value>,
}

enum Arguments {
    Text(String),
    Whole(String),
    None,
}

impl Fragment {
    /// `position` is the place of the fragment among several of one chunk.
    fn read(value: Value, position: Option<u64>) -> Option<Self> {
        let Value::Object(mut members) = value else {
            return None;
        };
        let mut function = match members.shift_remove("function") {
            Some(Value::Object(function)) => function,
            _ => Map::new(),
        };
        let id = text(members.shift_remove("id")).filter(|id| !id.is_empty());
        let index = members.shift_remove("index").and_then(|index| match index {
            Value::String(digits) => digits.parse().ok(),
            index => index.as_u64(),
        });
        members.shift_remove("type");
        Some(Self {
            index: index.or(if id.is_none() { position } else { None }),
            id,
            name: text(function.shift_remove("name")).unwrap_or_default(),
            arguments: match function.shift_remove("arguments") {
                Some(Value::String(text)) => Arguments::Text(text),
                None | Some(Value::Null) => Arguments::None,
                Some(whole) => Arguments::Whole(whole.to_string()),
            },
            members,
        })
    }
}

fn text(value: Option<Value>) -> Option<String> {
    match value {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

impl Calls {
    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Takes the `tool_calls` of a chunk.
    pub fn take(
        &mut self,
        fragments: Value,
        names: &mut Names<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let Value::Array(fragments) = fragments else {
            return Ok(());
        };
        let several = fragments.len() > 1;
        for (position, fragment) in fragments.into_iter().enumerate() {
            let position = several.then(|| u64::try_from(position).unwrap_or(u64::MAX));
            if let Some(fragment) = Fragment::read(fragment, position) {
                self.add(fragment, names, out)?;
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        fragment: Fragment,
        names: &mut Names<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let place = match self.place_of(&fragment) {
            Some(place) => place,
            None => {
                self.begin(&fragment, names, out)?;
                self.calls.len() - 1
            }
        };
        let Some(call) = self.calls.get_mut(place) else {
            return Ok(());
        };
        if call.ended {
            return Ok(());
        }
        if call.id.is_none() {
            call.id = fragment.id;
        }
        // A name that comes again is repeated; one that goes on was split.
        if call.arguments.is_empty() && call.block.is_none() && call.name != fragment.name {
            call.name.push_str(&fragment.name);
        }
        call.members.extend(fragment.members);
        let delta = match fragment.arguments {
            Arguments::Text(text) => text,
            Arguments::Whole(text) if call.arguments.is_empty() => text,
            Arguments::Whole(_) | Arguments::None => return Ok(()),
        };
        if delta.is_empty() {
            return Ok(());
        }
        self.start_up_to(place, names, out);
        if let Some(call) = self.calls.get_mut(place) {
            call.arguments.push_str(&delta);
            if let Some(id) = call.block.clone() {
                out.push(StreamEvent::ToolArgsDelta { id, delta });
            }
        }
        Ok(())
    }

    /// The call that a fragment goes on with.
    fn place_of(&self, fragment: &Fragment) -> Option<usize> {
        let found = match (fragment.index, &fragment.id) {
            (Some(index), _) => self
                .calls
                .iter()
                .rposition(|call| call.index == Some(index)),
            (None, Some(id)) => self
                .calls
                .iter()
                .rposition(|call| call.id.as_ref() == Some(id)),
            (None, None) if fragment.name.is_empty() => self.calls.len().checked_sub(1),
            (None, None) => None,
        };
        found.filter(|place| {
            let other_id = self.calls.get(*place).is_some_and(|call| {
                matches!((&call.id, &fragment.id), (Some(ours), Some(theirs)) if ours != theirs)
            });
            // Another id alone may be noise; with a name it is another call.
            !other_id || fragment.name.is_empty()
        })
    }

    fn begin(
        &mut self,
        fragment: &Fragment,
        names: &mut Names<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), ProviderError> {
        if self.calls.len() >= ANSWER_TOOL_CALLS {
            return Err(ProviderError::new(
                format!("the model made more than {ANSWER_TOOL_CALLS} tool calls in one answer"),
                ProviderErrorKind::Fatal,
            ));
        }
        if let Some(last) = self.calls.len().checked_sub(1) {
            self.start_up_to(last, names, out);
        }
        self.end_complete(out);
        self.calls.push(Call {
            index: fragment.index,
            ..Call::default()
        });
        Ok(())
    }

    /// Starts the blocks of all calls up to a place: blocks keep the order of
    /// their starts.
    fn start_up_to(&mut self, place: usize, names: &mut Names<'_>, out: &mut Vec<StreamEvent>) {
        let unstarted = self
            .calls
            .iter()
            .rposition(|call| call.block.is_some())
            .map_or(0, |started| started + 1);
        for at in unstarted..=place {
            let tool_call_id = self.unique_id(at, names.stem);
            let id = names.block();
            if let Some(call) = self.calls.get_mut(at) {
                call.block = Some(id.clone());
                call.id = Some(tool_call_id.0.clone());
                out.push(StreamEvent::ToolCallStart {
                    id,
                    tool_call_id,
                    name: call.name.as_str().into(),
                });
            }
        }
    }

    fn unique_id(&self, at: usize, stem: &str) -> ToolCallId {
        let own = format!("call_{stem}_{}", at + 1);
        let given = self.calls.get(at).and_then(|call| call.id.clone());
        let taken = |id: &str| {
            self.calls
                .iter()
                .take(at)
                .any(|call| call.id.as_deref() == Some(id))
        };
        ToolCallId(given.filter(|id| !taken(id)).unwrap_or(own))
    }

    /// Ends the calls whose arguments cannot go on, so that they can run
    /// while later ones are still written.
    fn end_complete(&mut self, out: &mut Vec<StreamEvent>) {
        while let Some(call) = self.calls.get_mut(self.ended) {
            if !call.ended && !call.is_complete() {
                return;
            }
            call.end(out);
            self.ended += 1;
        }
    }

    /// The answer has ended. A call that was cut off by the output limit is
    /// not ended: nobody may run it. Returns how many those are.
    pub fn finish(
        &mut self,
        cut_off: bool,
        names: &mut Names<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> usize {
        if let Some(last) = self.calls.len().checked_sub(1) {
            self.start_up_to(last, names, out);
        }
        let mut unfinished = 0;
        for call in self.calls.iter_mut().filter(|call| !call.ended) {
            if cut_off && !call.is_complete() {
                unfinished += 1;
            } else {
                call.end(out);
            }
        }
        unfinished
    }
}

impl Call {
    fn is_complete(&self) -> bool {
        self.arguments.trim_start().starts_with('{')
            && serde_json::from_str::<IgnoredAny>(&self.arguments).is_ok()
    }

    fn end(&mut self, out: &mut Vec<StreamEvent>) {
        let Some(id) = self.block.clone().filter(|_| !self.ended) else {
            return;
        };
        self.ended = true;
        if self.arguments.is_empty() {
            let delta = "{}".to_owned();
            out.push(StreamEvent::ToolArgsDelta {
                id: id.clone(),
                delta,
            });
        }
        let kept = KeptCall {
            arguments: self.kept_arguments(),
            members: std::mem::take(&mut self.members),
        };
        out.push(StreamEvent::ToolCallEnd {
            id,
            opaque: keep(&kept),
        });
    }

    fn kept_arguments(&self) -> Option<String> {
        let value: Value = serde_json::from_str(&self.arguments).ok()?;
        let compact = value.to_string();
        (compact != self.arguments).then(|| self.arguments.clone())
    }
}
