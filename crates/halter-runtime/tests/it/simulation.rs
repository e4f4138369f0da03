//! Invariants 1, 4 and 8 under 10,000 random schedules.

use halter_runtime::driver::simulation::{Report, Schedule, run};
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
        total.crashes += report.crashes;
        total.missed += report.missed;
    }
    println!("{total:?} {endings:?}");
    for how in [
        "completed",
        "cancelled",
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
    assert!(total.tools_run > 10_000 && total.crashes > 1_000 && total.missed > 1_000);
}

#[test]
fn a_seed_reproduces_its_schedule() {
    let schedule = Schedule::with_seed(42);
    assert_eq!(run(&schedule), run(&schedule));
}
