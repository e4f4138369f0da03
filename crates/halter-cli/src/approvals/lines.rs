//! Answers as lines of JSON on standard input:
//! `{"approval_id": "apr_…", "choice": "once|session|always|deny"}`, with a
//! `rule` for session and always, and a `reason` for deny, where wanted; and
//! `{"question_id": "ask_…", "responses": […]}` with an answer to each question.

use super::{AskedOfPerson, nobody_left};
use crate::limits::{MAX_ANSWER_BYTES, WAITING_ANSWERS};
use halter::{HalterError, HalterSession};
use halter_protocol::{ApprovalAnswer, ApprovalChoice, ApprovalId, QuestionId, QuestionResponse};
use serde::Deserialize;
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read};
use tokio::sync::mpsc;

/// What a request gets when standard input has ended.
const INPUT_ENDED: &str = "standard input ended before it was answered";

/// The lines of standard input.
pub struct AnswerLines {
    lines: mpsc::Receiver<Result<String, HalterError>>,
    open: Option<AskedOfPerson>,
    ended: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerLine {
    approval_id: ApprovalId,
    choice: ApprovalChoice,
    rule: Option<String>,
    reason: Option<String>,
}

impl AnswerLines {
    /// Reads standard input from now on.
    pub fn read() -> Self {
        let (sender, lines) = mpsc::channel(WAITING_ANSWERS);
        // A thread of its own, which may outlive the work: nothing can end a
        // read that waits, and the threads of the runtime are waited for.
        std::thread::spawn(move || read_lines(BufReader::new(io::stdin()), &sender));
        Self {
            lines,
            open: None,
            ended: false,
        }
    }

    pub async fn asked(&mut self, session: &HalterSession, request: AskedOfPerson) {
        self.open = Some(request);
        if self.ended {
            self.give_up(session).await;
        }
    }

    pub fn resolved(&mut self) {
        self.open = None;
    }

    /// The next line, or none at the end; for ever after that.
    pub async fn next(&mut self) -> Option<Result<String, HalterError>> {
        match self.ended {
            true => std::future::pending().await,
            false => self.lines.recv().await,
        }
    }

    /// Does what a line says.
    ///
    /// # Errors
    /// The line is no answer, or not one to what is asked.
    pub async fn take(
        &mut self,
        session: &HalterSession,
        line: Option<Result<String, HalterError>>,
    ) -> Result<(), HalterError> {
        let Some(line) = line else {
            self.ended = true;
            self.give_up(session).await;
            return Ok(());
        };
        let line = line?;
        if line.trim().is_empty() {
            return Ok(());
        }
        let answered = match parse(&line)? {
            ParsedAnswer::Approval(id, answer) => session.resolve_approval(&id, answer).await,
            ParsedAnswer::Questions(id, responses) => {
                session.answer_questions(&id, responses).await
            }
        };
        answered.map_err(|error| match error.downcast::<HalterError>() {
            Ok(known) => known,
            Err(other) => HalterError::new("failed", other.to_string()),
        })
    }

    async fn give_up(&mut self, session: &HalterSession) {
        if let Some(request) = self.open.take() {
            request.refuse(session, nobody_left(INPUT_ENDED)).await;
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResponseLine {
    question_id: QuestionId,
    responses: Vec<QuestionResponse>,
}

/// What a line says.
#[derive(Debug)]
enum ParsedAnswer {
    Approval(ApprovalId, ApprovalAnswer),
    Questions(QuestionId, Vec<QuestionResponse>),
}

fn parse(line: &str) -> Result<ParsedAnswer, HalterError> {
    let value: Value = serde_json::from_str(line).unwrap_or_default();
    if value.get("question_id").is_some() {
        let answer: ResponseLine = serde_json::from_value(value).map_err(|error| {
            let message = format!("a line of standard input is no answer: {error}");
            HalterError::new("answer_invalid", message).with_hint(
                "write {\"question_id\": \"ask_…\", \"responses\": [{\"selected_option_ids\": [\"…\"]} or \
                 {\"freeform_response\": \"…\"} or {\"skipped\": true}, …]}",
            )
        })?;
        return Ok(ParsedAnswer::Questions(
            answer.question_id,
            answer.responses,
        ));
    }
    let answer: AnswerLine = serde_json::from_str(line).map_err(|error| {
        let message = format!("a line of standard input is no answer: {error}");
        HalterError::new("answer_invalid", message).with_hint(
            "write {\"approval_id\": \"apr_…\", \"choice\": \"once|session|always|deny\"}",
        )
    })?;
    Ok(ParsedAnswer::Approval(
        answer.approval_id,
        ApprovalAnswer {
            choice: answer.choice,
            rule: answer.rule,
            reason: answer.reason,
        },
    ))
}

/// Reads lines until there are no more, or nobody wants them.
fn read_lines(mut source: impl BufRead, lines: &mpsc::Sender<Result<String, HalterError>>) {
    loop {
        let mut bytes = Vec::new();
        let most = MAX_ANSWER_BYTES + 1;
        let read = source
            .by_ref()
            .take(most as u64)
            .read_until(b'\n', &mut bytes);
        let line = match read {
            Ok(0) | Err(_) => return,
            Ok(count) if count == most && bytes.last() != Some(&b'\n') => {
                if !skip_line(&mut source) {
                    return;
                }
                let message = format!("an answer is longer than {MAX_ANSWER_BYTES} bytes");
                Err(HalterError::new("answer_invalid", message).with_hint("shorten the reason"))
            }
            Ok(_) => String::from_utf8(bytes).map_err(|_| {
                HalterError::new("answer_invalid", "an answer is not UTF-8 text")
                    .with_hint("write JSON in UTF-8")
            }),
        };
        if lines.blocking_send(line).is_err() {
            return;
        }
    }
}

/// Reads on to the end of a line; false if there is none.
fn skip_line(source: &mut impl BufRead) -> bool {
    loop {
        let (used, found) = match source.fill_buf() {
            Ok([]) | Err(_) => return false,
            Ok(buffer) => match buffer.iter().position(|byte| *byte == b'\n') {
                Some(end) => (end + 1, true),
                None => (buffer.len(), false),
            },
        };
        source.consume(used);
        if found {
            return true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &[u8]) -> Vec<Result<String, HalterError>> {
        let (sender, mut lines) = mpsc::channel(16);
        read_lines(input, &sender);
        drop(sender);
        std::iter::from_fn(|| lines.try_recv().ok()).collect()
    }

    #[test]
    fn an_answer_is_so_long_and_no_longer() {
        let most = vec![b'x'; MAX_ANSWER_BYTES];
        let more = vec![b'x'; 3 * MAX_ANSWER_BYTES];
        let input = [&most[..], b"\n", &more, b"\n\xff\nlast"].concat();
        let lines = read(&input);
        assert_eq!(lines.len(), 4);
        assert_eq!(
            lines[0].as_ref().unwrap().trim_end().len(),
            MAX_ANSWER_BYTES
        );
        assert!(
            lines[1]
                .as_ref()
                .unwrap_err()
                .to_string()
                .contains("longer")
        );
        assert!(lines[2].as_ref().unwrap_err().to_string().contains("UTF-8"));
        assert_eq!(lines[3].as_ref().unwrap(), "last");
    }

    #[test]
    fn a_line_is_an_answer_or_says_why_not() {
        let parsed = parse(r#"{"approval_id":"apr_1","choice":"deny","reason":"no"}"#).unwrap();
        let ParsedAnswer::Approval(id, answer) = parsed else {
            panic!("{parsed:?}");
        };
        assert_eq!(id, ApprovalId::from("apr_1"));
        assert_eq!(answer, ApprovalAnswer::deny("no"));
        let parsed = parse(r#"{"question_id":"ask_1","responses":[{"skipped":true}]}"#).unwrap();
        let ParsedAnswer::Questions(id, responses) = parsed else {
            panic!("{parsed:?}");
        };
        assert_eq!(id, QuestionId::from("ask_1"));
        assert_eq!(responses, [QuestionResponse::skipped()]);
        for line in [
            "yes",
            "{}",
            r#"{"question_id":"ask_1"}"#,
            r#"{"question_id":"ask_1","responses":["yes"]}"#,
            r#"{"approval_id":"a","choice":"once","rul":"x"}"#,
        ] {
            assert_eq!(parse(line).unwrap_err().code(), "answer_invalid", "{line}");
        }
    }

    #[test]
    fn so_many_answers_wait_and_no_more() {
        let (sender, _lines) = mpsc::channel::<Result<String, HalterError>>(WAITING_ANSWERS);
        for _ in 0..WAITING_ANSWERS {
            sender.try_send(Ok(String::new())).unwrap();
        }
        assert!(sender.try_send(Ok(String::new())).is_err());
    }
}
