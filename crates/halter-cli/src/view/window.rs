//! What fills the model's context, and what was cut from it.

use super::usage::{thousands, used};
use halter_protocol::{CompactionReason, CompactionTier, ContextCompaction};
use halter_runtime::ContextReport;

/// Cells of the bar.
const BAR: u64 = 40;

/// A compaction in a line.
pub fn compacted(compaction: &ContextCompaction) -> String {
    let why = match compaction.reason {
        CompactionReason::Overflow => "the model refused the conversation as too long; ",
        _ => "",
    };
    let counted = |count: u64, one: &str, many: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {many}"),
    };
    let what = match compaction.tier {
        CompactionTier::Outputs => {
            let outputs = counted(compaction.outputs_cut, "long text", "long texts");
            format!("{outputs} can be read again when needed")
        }
        CompactionTier::Summary => {
            let messages = counted(compaction.messages_cut, "message", "messages");
            format!("{messages} became a summary")
        }
        CompactionTier::Native => {
            let messages = counted(compaction.messages_cut, "message", "messages");
            format!("the model's service made {messages} smaller")
        }
        _ => counted(compaction.messages_cut, "message is", "messages are") + " no longer sent",
    };
    let before = thousands(compaction.tokens_before);
    let after = thousands(compaction.tokens_after);
    let cost = match compaction.usage.is_zero() {
        true => String::new(),
        false => format!("; it took {}", used(&compaction.usage)),
    };
    let shortcoming = match &compaction.summary_error {
        Some(error) => format!("; no model wrote it: {error}"),
        None => String::new(),
    };
    format!("{why}context compacted, {before} to {after} tokens: {what}{cost}{shortcoming}")
}

/// How the context stands, as a bar and a list.
pub fn context_lines(report: &ContextReport) -> Vec<String> {
    let size = &report.size;
    let source = match size.measured {
        true => "counted by the service",
        false => "estimated",
    };
    let percent = |tokens: u64| tokens * 100 / size.window.max(1);
    let mut lines = vec![
        format!(
            "{}: {} of {} tokens, {} %, {source}; compacted at {}",
            report.model,
            thousands(size.tokens),
            thousands(size.window),
            percent(size.tokens),
            thousands(size.limit),
        ),
        bar(size.tokens, size.limit, size.window),
    ];
    for (name, tokens) in report.fill.parts() {
        if tokens > 0 {
            let (tokens, percent) = (thousands(tokens), percent(tokens));
            lines.push(format!("{name:<15} {tokens:>7} {percent:>4} %"));
        }
    }
    let free = size.window.saturating_sub(size.tokens);
    let (tokens, percent) = (thousands(free), percent(free));
    lines.push(format!("{:<15} {tokens:>7} {percent:>4} %", "free"));
    lines
}

/// `█` is used, `░` is free, `│` is where the context is compacted.
fn bar(tokens: u64, limit: u64, window: u64) -> String {
    let cell = |tokens: u64| (tokens.saturating_mul(BAR) / window.max(1)).min(BAR);
    let (used, limit) = (cell(tokens), cell(limit).min(BAR - 1));
    let used = used.max(u64::from(tokens > 0));
    let cells = (0..BAR).map(|place| match place {
        place if place == limit => '│',
        place if place < used => '█',
        _ => '░',
    });
    cells.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use halter_protocol::{ReplayMeta, Usage, UsageBuckets};
    use halter_runtime::context::{ContextFill, ContextSize};

    fn compaction(tier: CompactionTier) -> ContextCompaction {
        ContextCompaction {
            tier,
            reason: CompactionReason::Threshold,
            messages_cut: 12,
            outputs_cut: 1,
            tokens_before: 160_400,
            tokens_after: 61_000,
            window: Vec::new(),
            usage: Usage::default(),
            answered_by: ReplayMeta::default(),
            summary_error: None,
        }
    }

    #[test]
    fn a_compaction_says_what_it_saved_and_cost() {
        assert_eq!(
            compacted(&compaction(CompactionTier::Outputs)),
            "context compacted, 160.4k to 61.0k tokens: 1 long text can be read again when needed"
        );
        assert_eq!(
            compacted(&compaction(CompactionTier::Native)),
            "context compacted, 160.4k to 61.0k tokens: the model's service made 12 messages \
             smaller"
        );
        let mut summary = compaction(CompactionTier::Summary);
        summary.reason = CompactionReason::Overflow;
        summary.usage = Usage::from(UsageBuckets {
            uncached_input: 5_000,
            output: 40,
            ..UsageBuckets::default()
        });
        summary.summary_error = Some("the model wrote nothing".to_owned());
        assert_eq!(
            compacted(&summary),
            "the model refused the conversation as too long; context compacted, 160.4k to 61.0k \
             tokens: 12 messages became a summary; it took 5.0k tokens in, 40 out; no \
             model wrote it: the model wrote nothing"
        );
    }

    #[test]
    fn the_bar_shows_what_is_used_and_where_it_ends() {
        let report = ContextReport {
            model: "m".to_owned(),
            size: ContextSize {
                tokens: 50_000,
                measured: true,
                window: 200_000,
                limit: 160_000,
            },
            fill: ContextFill {
                prompt: 2_000,
                results: 48_000,
                ..ContextFill::default()
            },
            messages: 9,
        };
        assert_eq!(
            context_lines(&report),
            [
                "m: 50.0k of 200.0k tokens, 25 %, counted by the service; compacted at 160.0k",
                "██████████░░░░░░░░░░░░░░░░░░░░░░│░░░░░░░",
                "system prompt      2.0k    1 %",
                "tool results      48.0k   24 %",
                "free             150.0k   75 %",
            ]
        );
        assert_eq!(bar(1, 40, 40_000).chars().filter(|c| *c == '█').count(), 0);
        assert_eq!(bar(80, 32, 40).chars().filter(|c| *c == '█').count(), 39);
    }
}
