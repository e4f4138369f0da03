//! What reads bytes from outside, fed with any bytes at all. Also the bodies
//! of the targets in `fuzz/`.

use terminal_runtime::client::{Demux, Item};
use terminal_runtime::limits::{MAX_FRAME_BYTES, MAX_ID_BYTES};
use terminal_runtime::protocol::frame::Frame;
use terminal_runtime::protocol::{Call, RequestId, decode};

/// Any bytes as a request.
pub fn request(data: &[u8]) {
    let id = match decode(data) {
        Ok(request) => {
            assert!(request.params.starts_with('{'));
            if let Err(error) = Call::parse(&request.method, request.params) {
                assert!(!error.message.is_empty());
            }
            request.id
        }
        Err(rejection) => {
            assert!(!rejection.error.message.is_empty());
            rejection.id
        }
    };
    if let RequestId::Text(text) = id {
        assert!(text.len() <= MAX_ID_BYTES);
    }
}

/// Any bytes as what a runtime sends; the first chooses the pieces in which
/// they come. However they are cut, the same is found.
pub fn frames(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else {
        return;
    };
    let pieces = usize::from(first) + 1;
    let whole = read(data, data.len().max(1));
    assert_eq!(read(data, pieces), whole);
    if let Ok(Some(frame)) = Frame::decode(data) {
        assert!(frame.payload.len() <= MAX_FRAME_BYTES);
        assert_eq!(frame.header.length, frame.payload.len());
        assert_eq!(frame.header.encode()[..], data[..data.len().min(24)]);
    }
}

fn read(data: &[u8], size: usize) -> (Vec<Item>, bool) {
    let (mut demux, mut items) = (Demux::default(), Vec::new());
    for chunk in data.chunks(size) {
        demux.push(chunk);
        loop {
            match demux.next_item() {
                Ok(Some(item)) => items.push(item),
                Ok(None) => break,
                Err(_) => return (items, false),
            }
        }
    }
    (items, true)
}
