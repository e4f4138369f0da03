//! Invariants 1, 4 and 8 under 10,000 random schedules.

use halter_runtime::driver::simulation::{Recording, Report, Schedule, record, run};
use halter_runtime::engine::Effect;
use halter_session::Durability;
use std::collections::BTreeMap;

#[test]
fn ten_thousand_random_schedules_keep_every_promise() {
    let mut endings: BTreeMap<String, usize> = BTreeMap::new();
    let mut total = Report::default();
    for seed in 0..10_000 {
        let report = run(&Schedule::with_seed(seed)).unwrap_or_else(|violation| {
            panic!("{violation}");
        });
        for (how, count) in report.endings {
            *endings.entry(how).or_default() += count;
        }
        total.events += report.events;
        total.tools_run += report.tools_run;
        total.approvals += report.approvals;
        total.questions += report.questions;
        total.saved_rules += report.saved_rules;
        for (how, count) in report.resolutions {
            *total.resolutions.entry(how).or_default() += count;
        }
        total.crashes += report.crashes;
        total.missed += report.missed;
        total.refused_calls += report.refused_calls;
        total.budget_warnings += report.budget_warnings;
        total.lowered_limits += report.lowered_limits;
        total.answered_wishes += report.answered_wishes;
        total.broken_compactions += report.broken_compactions;
        for (tier, count) in report.compactions {
            *total.compactions.entry(tier).or_default() += count;
        }
    }
    println!("{total:?} {endings:?}");
    for how in [
        "budget_exceeded",
        "completed",
        "cancelled",
        "context_overflow",
        "interrupted",
        "max_turns_reached",
        "output_limit_reached",
        "provider_unavailable",
        "hook_blocked",
        "hook_stopped",
        "empty_answer",
        "repeated_call",
        "store_failed",
        "structured_output_invalid",
        "unknown_model",
    ] {
        assert!(endings.contains_key(how), "no schedule ended as {how}");
    }
    for how in [
        "once",
        "session",
        "always",
        "deny",
        "withdrawn",
        "questions_user",
        "questions_withdrawn",
    ] {
        let count = total.resolutions.get(how).copied().unwrap_or_default();
        assert!(count > 100, "{count} approvals were resolved as {how}");
    }
    assert!(total.resolutions["interrupted"] > 20 && total.saved_rules > 50);
    for tier in ["outputs", "summary", "custom"] {
        let count = total.compactions.get(tier).copied().unwrap_or_default();
        assert!(count > 100, "{count} compactions of tier {tier}");
    }
    assert!(total.answered_wishes > 1_000 && total.broken_compactions > 100);
    assert!(total.refused_calls > 500 && total.budget_warnings > 500);
    assert!(total.lowered_limits > 100);
    assert!(total.approvals > 1_000);
    assert!(total.tools_run > 10_000 && total.crashes > 1_000 && total.missed > 1_000);
}

#[test]
fn a_seed_reproduces_its_schedule() {
    let schedule = Schedule::with_seed(42);
    assert_eq!(run(&schedule), run(&schedule));
}

/// What only reads shares the next commit; what changes something is durable
/// before it runs.
#[test]
fn only_the_start_of_what_changes_something_is_durable() {
    use halter_protocol::SessionEventPayload::{ToolExecutionStarted, Warning};
    let reads = ["look", "count"];
    let (mut buffered, mut durable) = (0, 0);
    for seed in 0..200 {
        let recorded = record(&Schedule::with_seed(seed)).unwrap();
        let effects = recorded.into_iter().flat_map(|it| it.1).flatten();
        for effect in effects {
            let Effect::Append {
                events, durability, ..
            } = effect
            else {
                continue;
            };
            let starts = |wanted: bool| {
                events.iter().any(|event| match &event.payload {
                    ToolExecutionStarted { call } => reads.contains(&call.name.as_str()) == wanted,
                    _ => false,
                })
            };
            if starts(false) {
                assert_eq!(durability, Durability::Durable);
                durable += 1;
            } else if starts(true)
                && events.iter().all(|event| {
                    matches!(event.payload, ToolExecutionStarted { .. } | Warning { .. })
                })
            {
                assert_eq!(durability, Durability::Buffered);
                buffered += 1;
            }
        }
    }
    assert!(buffered > 50 && durable > 50, "{buffered} {durable}");
}

/// Inputs and effects are data: what was told to an engine can be stored, told
/// to another, and leads to the same.
#[test]
fn recorded_inputs_have_equal_effects_in_a_fresh_engine() {
    let mut replayed = 0;
    for seed in 0..200 {
        for (recording, wanted) in record(&Schedule::with_seed(seed)).unwrap() {
            let stored = serde_json::to_string(&recording).unwrap();
            let read: Recording = serde_json::from_str(&stored).unwrap();
            assert_eq!(read, recording, "seed {seed}");
            assert_eq!(read.replay(), wanted, "seed {seed}");
            let stored = serde_json::to_string(&wanted).unwrap();
            assert_eq!(
                serde_json::from_str::<Vec<_>>(&stored).ok(),
                Some(wanted),
                "seed {seed}"
            );
            replayed += read.inputs.len();
        }
    }
    assert!(replayed > 10_000, "{replayed} inputs");
}
