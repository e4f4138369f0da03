//! Cache marks: how many, where, and in which order.

use crate::codec::Problem;
use crate::fields;
use crate::limits::MAX_CACHE_MARKS;
use serde_json::Value;

pub(super) fn check(body: &Value) -> Result<(), Problem> {
    let mut marks = Marks::default();
    for (index, tool) in fields::items(body, "tools").iter().enumerate() {
        marks.see(tool, || format!("tools.{index}"))?;
    }
    for (index, block) in fields::items(body, "system").iter().enumerate() {
        marks.see(block, || format!("system.{index}"))?;
    }
    for (index, message) in fields::items(body, "messages").iter().enumerate() {
        for (place, block) in fields::items(message, "content").iter().enumerate() {
            let at = || format!("messages.{index}.content.{place}");
            marks.see(block, at)?;
            if fields::kind(block) == "tool_result" {
                for (inner, part) in fields::items(block, "content").iter().enumerate() {
                    marks.see(part, || format!("{}.tool_result.content.{inner}", at()))?;
                }
            }
        }
    }
    // The automatic mark of the request as a whole counts, and comes last.
    marks.see(body, || "request".to_owned())?;
    if marks.count > MAX_CACHE_MARKS {
        return Err(Problem::invalid(format!(
            "A maximum of {MAX_CACHE_MARKS} blocks with cache_control may be provided. Found {}.",
            marks.count
        )));
    }
    Ok(())
}

#[derive(Default)]
struct Marks {
    count: usize,
    seen_short: bool,
}

impl Marks {
    fn see(&mut self, block: &Value, at: impl Fn() -> String) -> Result<(), Problem> {
        let Some(mark) = fields::present(block, "cache_control") else {
            return Ok(());
        };
        self.count += 1;
        let refuse = |reason: &str| Problem::invalid(format!("{}.cache_control: {reason}", at()));
        if fields::kind(mark) != "ephemeral" {
            return Err(refuse("type: Input should be 'ephemeral'"));
        }
        if matches!(fields::kind(block), "thinking" | "redacted_thinking") {
            return Err(refuse("cache_control cannot be set for thinking blocks"));
        }
        if fields::kind(block) == "text" && fields::text(block, "text").is_none_or(str::is_empty) {
            return Err(refuse("cache_control cannot be set for empty text blocks"));
        }
        match fields::text(mark, "ttl") {
            None | Some("5m") => self.seen_short = true,
            Some("1h") if self.seen_short => {
                return Err(refuse(
                    "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block",
                ));
            }
            Some("1h") => {}
            Some(_) => return Err(refuse("ttl: Input should be '5m' or '1h'")),
        }
        Ok(())
    }
}
