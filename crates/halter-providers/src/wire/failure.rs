//! What the errors of all services have in common: text to show that holds
//! no key, and the ways to say how long to wait.

use super::{HeaderLookup, RateLimitHints};
use crate::limits::ERROR_EXCERPT_CHARS;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use std::time::Duration;

/// How keys of known services begin.
const KEY_PREFIXES: [&str; 5] = ["sk-", "sess-", "AIza", "AQ.", "ya29."];

/// The text with everything that looks like a key replaced, cut to a size for
/// people.
pub(super) fn shown(text: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for character in text.trim().chars().take(ERROR_EXCERPT_CHARS) {
        let in_word = character.is_alphanumeric() || matches!(character, '-' | '_' | '.' | '*');
        if in_word {
            word.push(character);
        } else {
            push_word(&mut out, &word);
            word.clear();
            out.push(if character.is_control() {
                ' '
            } else {
                character
            });
        }
    }
    push_word(&mut out, &word);
    if text.trim().chars().nth(ERROR_EXCERPT_CHARS).is_some() {
        out.push('…');
    }
    out
}

fn push_word(out: &mut String, word: &str) {
    if KEY_PREFIXES.iter().any(|prefix| word.starts_with(prefix)) {
        out.push_str("[key]");
    } else {
        out.push_str(word);
    }
}

/// A body that is not the service's own error, such as a proxy's page.
pub(super) fn shown_body(body: &[u8]) -> String {
    shown(&String::from_utf8_lossy(body))
}

/// A duration as services write it: `6m0s`, `1.5s`, `20ms`, `1h2m`, `12`
/// (seconds).
pub(super) fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    if let Ok(seconds) = rest.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at_checked(digits)?;
        let letters = after
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(letters)?;
        let seconds = number.parse::<f64>().ok()? * unit_seconds(unit)?;
        total = total.checked_add(Duration::try_from_secs_f64(seconds).ok()?)?;
        rest = after;
    }
    Some(total)
}

fn unit_seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "d" => 86_400.0,
        "h" => 3_600.0,
        "m" => 60.0,
        "s" => 1.0,
        "ms" => 0.001,
        "us" | "µs" => 0.000_001,
        "ns" => 0.000_000_001,
        _ => return None,
    })
}

/// What `retry-after-ms` or `retry-after` ask for. An instant is turned into a
/// wait by the response's own `date`, so no clock is read.
pub(super) fn retry_after(headers: &dyn HeaderLookup) -> Option<Duration> {
    let milliseconds = headers
        .header("retry-after-ms")
        .and_then(|value| value.trim().parse::<f64>().ok())
        .and_then(|value| Duration::try_from_secs_f64(value / 1_000.0).ok());
    let asked = headers.header("retry-after").map(str::trim);
    milliseconds
        .or_else(|| asked.and_then(duration))
        .or_else(|| asked.and_then(|text| wait_until(headers, http_date(text)?)))
}

/// The time from the response's `date` to an instant; none at all if it has
/// passed.
pub(super) fn wait_until(headers: &dyn HeaderLookup, then: Timestamp) -> Option<Duration> {
    let now = http_date(headers.header("date")?.trim())?;
    Some(Duration::try_from(then.duration_since(now)).unwrap_or(Duration::ZERO))
}

fn http_date(text: &str) -> Option<Timestamp> {
    static PARSER: DateTimeParser = DateTimeParser::new();
    PARSER.parse_timestamp(text).ok()
}

/// A header that is a number.
pub(super) fn number(headers: &dyn HeaderLookup, name: &str) -> Option<u64> {
    headers.header(name)?.trim().parse().ok()
}

/// What the headers of OpenAI, and of servers like it, say about rates.
pub(super) fn openai_rate_limit(headers: &dyn HeaderLookup) -> RateLimitHints {
    let reset = |name: &str| headers.header(name).and_then(duration);
    RateLimitHints {
        tokens_limit: number(headers, "x-ratelimit-limit-tokens"),
        tokens_remaining: number(headers, "x-ratelimit-remaining-tokens"),
        tokens_reset: reset("x-ratelimit-reset-tokens"),
        requests_remaining: number(headers, "x-ratelimit-remaining-requests"),
        requests_reset: reset("x-ratelimit-reset-requests"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_every_spelling_are_read() {
        for (text, milliseconds) in [
            ("6m0s", 360_000),
            ("1h2m3.5s", 3_723_500),
            ("20ms", 20),
            ("0s", 0),
            ("12", 12_000),
            ("1.5", 1_500),
            ("1.898s", 1_898),
            ("1d", 86_400_000),
        ] {
            assert_eq!(
                duration(text),
                Some(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
        for wrong in [
            "",
            "s",
            "5x",
            "-1",
            "1e400s",
            "Wed, 21 Oct 2026",
            "9é",
            "NaN",
        ] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn keys_are_never_shown() {
        assert_eq!(
            shown("Incorrect API key provided: sk-proj-abc*****xyz. See 'AIzaSyA_b-c'."),
            "Incorrect API key provided: [key] See '[key]'."
        );
        assert_eq!(shown("a\nb\tc"), "a b c");
    }

    #[test]
    fn long_text_is_cut_at_the_limit() {
        let at_limit = "é".repeat(ERROR_EXCERPT_CHARS);
        assert_eq!(shown(&at_limit), at_limit);
        assert_eq!(shown(&format!("{at_limit}x")), format!("{at_limit}…"));
    }
}
