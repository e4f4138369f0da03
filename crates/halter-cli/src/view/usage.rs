//! What was used, in a line for people.

use halter_protocol::Usage;

/// Tokens and dollars.
pub fn used(usage: &Usage) -> String {
    let input = thousands(usage.input_tokens);
    let output = thousands(usage.output_tokens);
    let tokens = match usage.incomplete {
        true if usage.buckets == Default::default() => {
            return "the server did not say how many tokens it used".to_owned();
        }
        true => format!("more than {input} tokens in, {output} out"),
        false => format!("{input} tokens in, {output} out"),
    };
    match usage.cost {
        None => tokens,
        Some(cost) if cost.partial => format!("{tokens}, more than ${:.4}", cost.dollars()),
        Some(cost) => format!("{tokens}, ${:.4}", cost.dollars()),
    }
}

/// A count to three digits or so.
pub(super) fn thousands(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}.{}k", count / 1_000, count % 1_000 / 100),
        _ => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_summed_up_without_inventing_a_price() {
        let mut usage = Usage::from(halter_protocol::UsageBuckets {
            uncached_input: 1_500,
            output: 20,
            ..Default::default()
        });
        assert_eq!(used(&usage), "1.5k tokens in, 20 out");
        let mut cost = halter_protocol::Cost {
            output: 12_340_000,
            ..Default::default()
        };
        usage.cost = Some(cost);
        assert_eq!(used(&usage), "1.5k tokens in, 20 out, $0.0123");
        cost.partial = true;
        usage.cost = Some(cost);
        assert_eq!(used(&usage), "1.5k tokens in, 20 out, more than $0.0123");
    }

    #[test]
    fn what_a_server_does_not_say_is_not_zero() {
        let mut usage = Usage::unknown();
        assert_eq!(
            used(&usage),
            "the server did not say how many tokens it used"
        );
        usage.saturating_accumulate(&Usage::from(halter_protocol::UsageBuckets {
            output: 20,
            ..Default::default()
        }));
        assert_eq!(used(&usage), "more than 0 tokens in, 20 out");
    }
}
