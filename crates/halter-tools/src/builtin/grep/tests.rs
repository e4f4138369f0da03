//! Stopping in the middle of a file.

use super::*;
use serde_json::json;

const LINE: &str = "x\n";
const LINES: usize = 1_000;

/// A file that is read in small parts; one of the reads cancels the call.
struct CancellingFile<'a> {
    left: io::Cursor<String>,
    cancel_at: usize,
    cancel: &'a CancellationToken,
    seen: &'a mut Seen,
}

#[derive(Default)]
struct Seen {
    reads: usize,
    /// Lines that were read before the call was cancelled.
    lines: usize,
}

impl Read for CancellingFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.seen.reads += 1;
        if self.seen.reads == self.cancel_at {
            self.cancel.cancel();
        }
        let most = buffer.len().min(64);
        let read = self.left.read(&mut buffer[..most])?;
        if !self.cancel.is_cancelled() {
            self.seen.lines = self.left.position() as usize / LINE.len();
        }
        Ok(read)
    }
}

/// Whether the search was cancelled, what was read, and what it counted.
fn search(pattern: &str, multiline: bool, cancel_at: usize) -> (bool, Seen, usize) {
    let input = json!({"pattern": pattern, "multiline": multiline});
    let input: GrepInput = serde_json::from_value(input).unwrap();
    let (cancel, mut seen) = (CancellationToken::new(), Seen::default());
    let file = CancellingFile {
        left: io::Cursor::new(LINE.repeat(LINES)),
        cancel_at,
        cancel: &cancel,
        seen: &mut seen,
    };
    let (matcher, collector) = (matcher(&input).unwrap(), Collector::new(wanted(&input)));
    let mut sink = FileSink::new(&collector, &matcher, &cancel);
    let ended = search_reader(&cancel, &mut searcher(&input), &matcher, &mut sink, file);
    let found = sink.finish().count() as usize;
    (ended.is_err(), seen, found)
}

#[test]
fn a_search_stops_inside_a_file() {
    for multiline in [false, true] {
        let (is_cancelled, seen, found) = search("x", multiline, 0);
        assert_eq!((is_cancelled, seen.lines, found), (false, LINES, LINES));
        // Where nothing matches, the next read ends it.
        let (is_cancelled, seen, _) = search("y", multiline, 5);
        assert_eq!((is_cancelled, seen.reads), (true, 5));
    }
    // Where something does, the next match.
    let (is_cancelled, seen, found) = search("x", false, 5);
    assert_eq!((is_cancelled, seen.reads), (true, 5));
    assert!(found > 0 && found <= seen.lines, "{found}");
}
