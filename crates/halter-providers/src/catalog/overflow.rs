//! What an error about a conversation that is too long says of the limit.
//!
//! Most servers have no code for it, or none for the number: both are read
//! from the words that the servers in the field use.

/// Words that only errors about the length of a conversation have.
const SAID_OF_LENGTH: [&str; 11] = [
    "context length",
    "context window",
    "context size",
    "exceed context limit",
    "prompt is too long",
    "input is too long",
    "contextwindowexceedederror",
    "exceeds the maximum number of tokens",
    "input token count",
    "exceeds the context",
    "too many tokens",
];

/// What stands before the limit.
const BEFORE_LIMIT: [&str; 9] = [
    "maximum context length is ",
    "maximum context length of ",
    "> ",
    "available context size (",
    "maximum number of tokens allowed (",
    "maximum number of tokens allowed ",
    "context window of ",
    "context length is only ",
    "context length of ",
];

/// True if the words of an error say that the conversation is too long.
pub fn is_overflow(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    SAID_OF_LENGTH.iter().any(|words| message.contains(words))
}

/// The limit in tokens that such an error names.
///
/// ```
/// use halter_providers::catalog::overflow::limit_in;
///
/// let message = "prompt is too long: 210000 tokens > 200,000 maximum";
/// assert_eq!(limit_in(message), Some(200_000));
/// ```
pub fn limit_in(message: &str) -> Option<u32> {
    let message = message.to_ascii_lowercase();
    BEFORE_LIMIT.iter().find_map(|before| {
        let (_, tail) = message.split_once(before)?;
        leading_number(tail).filter(|number| *number > 0)
    })
}

/// A number at the start, perhaps with commas or underscores in it.
fn leading_number(text: &str) -> Option<u32> {
    let digits: String = text
        .chars()
        .take_while(|c| c.is_ascii_digit() || matches!(c, ',' | '_'))
        .filter(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_servers_are_understood() {
        for (message, limit) in [
            (
                "This model's maximum context length is 128000 tokens. However, your messages resulted in 150123 tokens.",
                Some(128_000),
            ),
            (
                "prompt is too long: 210000 tokens > 200000 maximum",
                Some(200_000),
            ),
            (
                "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length",
                Some(200_000),
            ),
            (
                "the request exceeds the available context size (4096 tokens), try increasing it",
                Some(4_096),
            ),
            (
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                Some(1_048_576),
            ),
            (
                "Your input exceeds the context window of this model. Please adjust your input and try again.",
                None,
            ),
            (
                "This endpoint's maximum context length is 163,840 tokens.",
                Some(163_840),
            ),
            (
                "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which exceeds the context",
                None,
            ),
        ] {
            assert!(is_overflow(message), "{message}");
            assert_eq!(limit_in(message), limit, "{message}");
        }
    }

    #[test]
    fn other_errors_are_not_about_length() {
        for message in [
            "",
            "invalid api key",
            "max_tokens is too large: 99999",
            "unknown parameter",
        ] {
            assert!(!is_overflow(message), "{message}");
        }
    }
}
