//! Example exchanges, from the head of a response to the token counts.

use super::cancel::{provider, runtime};
use super::subject::Subject;
use crate::http::hello;
use crate::http::scripted::Script;
use crate::support::answer;
use crate::wire_kit::fixture_dir;
use halter_protocol::StreamEvent;

/// A response as a server sends it: status, headers, a blank line, the body.
fn script_of(text: &str) -> Script {
    let (head, body) = text.split_once("\n\n").unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().strip_prefix("HTTP/1.1 ").unwrap();
    let headers = lines.map(|line| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.to_owned(), value.to_owned())
    });
    Script {
        headers: headers.collect(),
        ..Script::new(status.parse().unwrap(), body)
    }
}

pub fn usage_of_example_exchanges_is_normalized(subject: &Subject) {
    let folder = fixture_dir(subject.name).join("exchanges");
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let script = script_of(&std::fs::read_to_string(&path).unwrap());
        let provider = provider(&(subject.wire_of)(name), script);
        let items = runtime().block_on(answer(&provider, hello()));
        let counted = items.iter().rev().find_map(|item| match item {
            Ok(StreamEvent::UsageUpdate { usage }) => Some(usage),
            Err(error) => panic!("{name}: {error:?}"),
            _ => None,
        });
        let counted = counted.unwrap_or_else(|| panic!("{name} counts nothing"));
        let expected = subject.exchanges.iter().find(|(known, _)| *known == name);
        let (_, expected) = expected.unwrap_or_else(|| panic!("{name} is not in the table"));
        assert_eq!(counted.buckets, *expected, "{name}");
        let input = expected.uncached_input + expected.cache_read + expected.cache_write;
        assert_eq!(counted.input_tokens, input, "{name}");
        let output = expected.output + expected.reasoning;
        assert_eq!(counted.output_tokens, output, "{name}");
        seen += 1;
    }
    assert_eq!(seen, subject.exchanges.len());
}
