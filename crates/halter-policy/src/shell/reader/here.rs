//! Here-documents. The body is read as soon as its operator is: it starts on
//! the next line, and the reader jumps over it when it gets there.

use super::super::CommandRefusal;
use super::super::tree::{HereBody, Piece, Redirect, RedirectKind, Word};
use super::Reader;

impl Reader<'_> {
    pub(super) fn here_document(
        &mut self,
        stream: Option<u32>,
        strips_tabs: bool,
    ) -> Result<Redirect, CommandRefusal> {
        self.blanks()?;
        let target = self.word()?;
        let plain = |end: &String| !end.is_empty() && !target.raw.contains('\n');
        let Some(end) = target.literal().filter(plain) else {
            return Err(self.refuse("the end of a here-document must be a plain word"));
        };
        let quoted = target
            .pieces
            .iter()
            .any(|piece| matches!(piece, Piece::Quoted(_)));
        let body_start = match self.after_here {
            Some((at, depth)) if depth == self.depth => at,
            Some(_) => return Err(self.refuse("a here-document stands in the line of another")),
            None => {
                let line = self.rest().find('\n');
                let Some(line) = line else {
                    return Err(self.refuse("the here-document has no body"));
                };
                self.at + line + 1
            }
        };
        let (body, after) = self.document(body_start, &end, strips_tabs, quoted)?;
        self.after_here = Some((after, self.depth));
        let body = if quoted {
            HereBody::Literal(body)
        } else {
            HereBody::Expanded(self.expanded_body(&body)?)
        };
        Ok(Redirect {
            stream,
            kind: RedirectKind::HereDocument { strips_tabs, body },
            target,
        })
    }

    /// The lines up to the one that ends the document, and where the next
    /// command starts: at the newline that ends that line.
    fn document(
        &self,
        start: usize,
        end: &str,
        strips_tabs: bool,
        quoted: bool,
    ) -> Result<(String, usize), CommandRefusal> {
        let mut body = String::new();
        let mut at = start;
        for line in self.source.get(start..).unwrap_or_default().split('\n') {
            let next = at + line.len() + 1;
            let text = if strips_tabs {
                line.trim_start_matches('\t')
            } else {
                line
            };
            if text == end {
                return Ok((body, next.min(self.source.len())));
            }
            if self.depth > 0 && text.starts_with(end) {
                return Err(self.refuse_at(at, "this line could end the here-document too"));
            }
            if !quoted && line.ends_with('\\') {
                return Err(self.refuse_at(
                    at,
                    "a line of a here-document cannot be continued; quote the delimiter",
                ));
            }
            body.push_str(text);
            body.push('\n');
            at = next;
        }
        Err(self.refuse(format!(
            "the here-document is not closed; end it with a line `{end}`"
        )))
    }

    /// A body whose expansions the shell would do.
    fn expanded_body(&self, body: &str) -> Result<Word, CommandRefusal> {
        let mut reader = Reader::new(body, self.depth);
        let mut pieces = Vec::new();
        let mut text = String::new();
        while let Some(next) = reader.peek() {
            match next {
                '\\' => {
                    reader.next();
                    match reader.peek() {
                        Some(escaped @ ('$' | '`' | '\\')) => {
                            reader.next();
                            text.push(escaped);
                        }
                        _ => text.push('\\'),
                    }
                }
                '$' | '`' => match reader.expansion(super::quotes::Context::Document)? {
                    Some(piece) => {
                        pieces.push(Piece::Quoted(std::mem::take(&mut text)));
                        pieces.push(piece);
                    }
                    None => text.extend(reader.next()),
                },
                _ => text.extend(reader.next()),
            }
        }
        pieces.push(Piece::Quoted(text));
        Ok(Word {
            raw: body.to_owned(),
            pieces,
        })
    }
}
