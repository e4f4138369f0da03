//! What building the request of step 300 takes that step 299 did not have.
//!
//! The body is copied out whole, because it is sent whole: that copy is the
//! floor. Everything else is counted, allocation by allocation.

use halter_bench::measure::{cpu_time, median};
use halter_bench::report::{Claim, print, remark};
use halter_protocol::{
    AssembledPrompt, Message, ProviderKind, ResolvedModel, ToolSpec, UserMessage,
};
use halter_providers::wire::anthropic::Anthropic;
use halter_providers::wire::chat::{Chat, Dialect};
use halter_providers::wire::gemini::GeminiWire;
use halter_providers::wire::responses::ResponsesWire;
use halter_providers::wire::{ConversationEncoder, ImageInput, RequestSettings, Wire};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::hint::black_box;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Measured sessions; the medians count.
const ROUNDS: usize = 15;

/// How often a request is built and copied for one figure of time.
const REPEATS: usize = 50;

/// Bytes of every message.
const MESSAGE_BYTES: usize = 2_000;

/// What one request took.
struct Cost {
    allocations: f64,
    /// Bytes allocated besides the body.
    bytes: f64,
    /// Its time over that of copying the body.
    over_copy: f64,
}

fn main() -> anyhow::Result<()> {
    let wires: [&dyn Wire; 4] = [
        &Anthropic::new(),
        &ResponsesWire,
        &Chat::new(Dialect::OPENAI),
        &GeminiWire,
    ];
    for wire in wires {
        let (mut allocations, mut bytes, mut time) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let (early, late) = session(wire)?;
            allocations.push(late.allocations / early.allocations);
            bytes.push(late.bytes / MESSAGE_BYTES as f64);
            time.push(late.over_copy);
        }
        print(&Claim {
            what: &format!("{}: allocations at step 300 over step 30", wire.name()),
            value: median(allocations),
            limit: 1.1,
            unit: "x",
        });
        print(&Claim {
            what: &format!(
                "{}: bytes at step 300, body aside, over the new message",
                wire.name()
            ),
            value: median(bytes),
            limit: 4.0,
            unit: "x",
        });
        let time = median(time);
        remark(&format!(
            "{}: {time:.2} x the time of copying the body",
            wire.name()
        ));
    }
    Ok(())
}

/// The costs of steps 30 and 300 of a session.
fn session(wire: &dyn Wire) -> anyhow::Result<(Cost, Cost)> {
    let model = ResolvedModel {
        id: "default".into(),
        provider: "acme".into(),
        provider_kind: ProviderKind::Custom,
        model: "m-1".to_owned(),
        max_input_tokens: None,
        max_output_tokens: None,
        reasoning: None,
        tokens_per_minute: None,
    };
    let mut encoder = wire.encoder(&model, ImageInput::Taken);
    let (prompt, tools) = (AssembledPrompt::default(), Arc::<[ToolSpec]>::from([]));
    let mut costs = Vec::new();
    for _ in 0..300 {
        let message = Message::User(UserMessage::text("x".repeat(MESSAGE_BYTES)));
        let region = Region::new(ALLOCATOR);
        encoder.set_prefix(&prompt, &tools);
        encoder.push(&message);
        let body = encoder.body(&RequestSettings::default())?;
        let change = region.change();
        costs.push(Cost {
            allocations: (change.allocations + change.reallocations) as f64,
            bytes: change.bytes_allocated.saturating_sub(body.json.len()) as f64,
            over_copy: 0.0,
        });
    }
    let mut late = costs.pop();
    if let Some(late) = &mut late {
        late.over_copy = over_copy(encoder.as_mut())?;
    }
    let early = costs.into_iter().nth(29);
    early.zip(late).ok_or_else(|| anyhow::anyhow!("no steps"))
}

/// The time of a request without a new message, over that of copying it.
fn over_copy(encoder: &mut dyn ConversationEncoder) -> anyhow::Result<f64> {
    let settings = RequestSettings::default();
    let body = encoder.body(&settings)?.json;
    let began = cpu_time();
    for _ in 0..REPEATS {
        black_box(encoder.body(&settings)?);
    }
    let built = cpu_time();
    for _ in 0..REPEATS {
        black_box(black_box(&body).clone());
    }
    Ok((built - began).as_secs_f64() / (cpu_time() - built).as_secs_f64())
}
