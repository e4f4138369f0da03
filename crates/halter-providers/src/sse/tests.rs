use super::*;
use proptest::prelude::*;

type Events = Vec<(String, String)>;

fn parse(pieces: &[&[u8]]) -> Result<Events, SseError> {
    let mut parser = SseParser::new();
    let mut events = Vec::new();
    let mut sink = |event: &SseEvent<'_>| {
        events.push((event.name.to_owned(), event.data.to_owned()));
        Ok(())
    };
    for piece in pieces {
        parser.feed(piece, &mut sink)?;
    }
    parser.finish(&mut sink)?;
    Ok(events)
}

fn datas(text: &str) -> Vec<String> {
    let events = parse(&[text.as_bytes()]).unwrap();
    events.into_iter().map(|(_, data)| data).collect()
}

#[test]
fn every_line_ending_ends_a_line() {
    for end in ["\n", "\r", "\r\n"] {
        let text = format!("data: a{end}data: b{end}{end}data: c{end}{end}");
        assert_eq!(datas(&text), ["a\nb", "c"], "{end:?}");
    }
    assert_eq!(datas("data: a\r\ndata: b\r\r\ndata: c\n\r"), ["a\nb", "c"]);
}

#[test]
fn comments_unknown_fields_and_events_without_data_are_ignored() {
    assert_eq!(
        datas(": ping\n\nevent: none\n\nid: 1\nretry: 5\nwhat\ndata: a\n: within\n\n"),
        ["a"]
    );
}

#[test]
fn the_space_after_the_colon_is_optional_and_single() {
    assert_eq!(datas("data:a\n\ndata:  b\n\ndata\n\n"), ["a", " b", ""]);
}

#[test]
fn names_belong_to_one_event() {
    let events = parse(&[b"event: x\ndata: 1\n\ndata: 2\n\n"]).unwrap();
    assert_eq!(
        events,
        [("x".into(), "1".into()), (String::new(), "2".into())]
    );
}

#[test]
fn a_byte_order_mark_is_skipped_even_in_pieces() {
    assert_eq!(datas("\u{feff}data: a\n\n"), ["a"]);
    let pieces: [&[u8]; 3] = [b"\xEF", b"\xBB", b"\xBFdata: a\n\n"];
    assert_eq!(parse(&pieces).unwrap(), [(String::new(), "a".into())]);
}

#[test]
fn an_event_without_its_blank_line_is_delivered_at_the_end() {
    assert_eq!(datas("data: a\n\ndata: [DONE]"), ["a", "[DONE]"]);
    assert_eq!(datas("data: a\n\ndata: [DONE]\n"), ["a", "[DONE]"]);
}

#[test]
fn bytes_that_are_no_text_are_replaced() {
    let events = parse(&[b"data: a\xFFb\n\n"]).unwrap();
    assert_eq!(events, [(String::new(), "a\u{fffd}b".into())]);
}

#[test]
fn an_event_may_be_as_large_as_the_limit_and_no_larger() {
    let fits = vec![b'x'; SSE_EVENT_BYTES - b"data:\n".len()];
    let event = [b"data:".as_slice(), &fits, b"\n"].concat();
    assert_eq!(event.len(), SSE_EVENT_BYTES);
    let pieces: Vec<&[u8]> = event.chunks(1 << 20).collect();
    assert_eq!(parse(&pieces).unwrap().len(), 1);

    let line = b"data: and one more line\n";
    let larger = [event.as_slice(), line].concat();
    let pieces: Vec<&[u8]> = larger.chunks(1 << 20).collect();
    assert_eq!(parse(&pieces), Err(SseError::EventTooLarge));
    assert_eq!(SseError::EventTooLarge.code(), "event_too_large");
}

#[test]
fn endless_comments_hold_no_memory() {
    let mut parser = SseParser::new();
    for _ in 0..10_000 {
        parser
            .feed(b": ping\n", |_| Ok::<(), SseError>(()))
            .unwrap();
    }
    assert_eq!(parser.line.len(), 0);
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        Just(b"data: ".to_vec()),
        Just(b"data:".to_vec()),
        Just(b"event: ".to_vec()),
        Just(b":".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\n\n".to_vec()),
        Just("gr\u{fc}\u{df}e \u{1F980}".as_bytes().to_vec()),
        Just(b"\xEF\xBB\xBF".to_vec()),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(token, 0..40).prop_map(|tokens| tokens.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_cutting_gives_the_same_events(
        bytes in stream(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        at.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in at {
            pieces.push(&bytes[from..cut]);
            from = cut;
        }
        pieces.push(&bytes[from..]);
        let whole = parse(&[&bytes]).unwrap();
        prop_assert_eq!(parse(&pieces).unwrap(), whole.clone());
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(parse(&single).unwrap(), whole);
    }
}
