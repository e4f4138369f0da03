//! Which images and documents may join a session.
//!
//! Everything in a transcript is sent with every request from then on, so one
//! image that a service refuses, or one too many, would end the session. What
//! the model of the turn does not take is left out of a tool's result with a note that says why,
//! and a user's message with it is refused.

use super::Engine;
use halter_protocol::media::pixels;
use halter_protocol::{
    ContentPart, MediaFormat, MediaLimits, MediaProblem, Message, SessionState, ToolResult,
    TurnError, UserMessage,
};
use std::sync::Arc;

/// What the images and documents of a transcript come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct MediaLedger {
    bytes: usize,
    attachments: usize,
    images: usize,
    /// The longest side of any of the images.
    longest_side: u32,
}

impl MediaLedger {
    /// Of all messages so far.
    pub fn of(state: &SessionState) -> Self {
        let mut ledger = Self::default();
        for message in state.messages.iter() {
            ledger.count_message(message);
        }
        ledger
    }

    /// Adds what a message brings.
    pub fn count_message(&mut self, message: &Message) {
        match message {
            Message::User(user) => user.attachments().for_each(|part| self.count(part)),
            Message::Tool(tool) => self.count_result(&tool.content),
            _ => {}
        }
    }

    /// Adds what a result brings.
    pub fn count_result(&mut self, result: &ToolResult) {
        result.attachments().for_each(|part| self.count(part));
    }

    fn count(&mut self, part: &ContentPart) {
        *self = self.with(part);
    }

    fn with(mut self, part: &ContentPart) -> Self {
        let Some((_, data)) = part.media() else {
            return self;
        };
        self.bytes = self.bytes.saturating_add(data.len());
        self.attachments += 1;
        if let ContentPart::Image { .. } = part {
            let (width, height) = pixels(data).unwrap_or_default();
            self.images += 1;
            self.longest_side = self.longest_side.max(width).max(height);
        }
        self
    }

    /// Takes a part in, unless there is no room for it.
    fn admit(&mut self, part: &ContentPart, limits: &MediaLimits) -> Result<(), String> {
        let with = self.with(part);
        if with.attachments > limits.attachments {
            return Err(format!(
                "a session may hold {} images and documents; go on in a new session",
                limits.attachments
            ));
        }
        if with.bytes > limits.attachments_bytes {
            return Err(format!(
                "the images and documents of a session may have {} bytes \
                 together, and this would make it {}; make it smaller, or go on in a new session",
                limits.attachments_bytes, with.bytes
            ));
        }
        if with.images > limits.many_images && with.longest_side > limits.many_images_side_pixels {
            return Err(format!(
                "a session of more than {} images may hold none with more than \
                 {} pixels on a side, and one has {}; \
                 scale images down, or go on in a new session",
                limits.many_images, limits.many_images_side_pixels, with.longest_side
            ));
        }
        *self = with;
        Ok(())
    }

    /// The result with what cannot be sent replaced by a note.
    pub fn admit_result(
        &mut self,
        result: Arc<ToolResult>,
        limits: &MediaLimits,
    ) -> Arc<ToolResult> {
        match result.as_ref() {
            ToolResult::Parts { parts } => {
                let parts = parts.iter().cloned();
                ToolResult::parts(parts.map(|part| self.admit_part(part, limits))).into()
            }
            _ => result,
        }
    }

    fn admit_part(&mut self, part: ContentPart, limits: &MediaLimits) -> ContentPart {
        let part = with_right_type(part, limits);
        let checked = limits.check(&part).map_err(|problem| problem.to_string());
        match checked.and_then(|()| self.admit(&part, limits)) {
            Ok(()) => part,
            Err(reason) => left_out(&part, &reason),
        }
    }
}

/// Tools get types wrong: what the bytes are counts, where models know it.
fn with_right_type(part: ContentPart, limits: &MediaLimits) -> ContentPart {
    let Err(MediaProblem::WrongType {
        found: Some(found), ..
    }) = limits.check(&part)
    else {
        return part;
    };
    match &part {
        ContentPart::Image { data, .. } if found.is_image() => found.part(data.clone()),
        ContentPart::Document { data, .. } if found == MediaFormat::Pdf => found.part(data.clone()),
        _ => part,
    }
}

fn left_out(part: &ContentPart, reason: &str) -> ContentPart {
    let described = part.describe();
    let described = described.strip_suffix(']').unwrap_or(&described);
    ContentPart::text(format!("{described}, left out: {reason}]"))
}

/// Checks what a user attached, as far as it does not depend on the session.
///
/// # Errors
/// If the model does not take one of the images or documents.
pub(crate) fn check_attachments(
    message: &UserMessage,
    limits: &MediaLimits,
) -> Result<(), TurnError> {
    for (number, part) in (1..).zip(message.attachments()) {
        limits
            .check(part)
            .map_err(|problem| refused(number, part, &problem.to_string()))?;
    }
    Ok(())
}

fn refused(number: usize, part: &ContentPart, reason: &str) -> TurnError {
    let what = part.describe();
    TurnError::new(
        "attachment_refused",
        format!("attachment {number}, {what}, cannot be sent: {reason}"),
    )
}

impl Engine {
    /// Checks that the session has room for what the user attached.
    pub(super) fn admit_attachments(&mut self) -> Result<(), TurnError> {
        let Some(turn) = &self.turn else {
            return Ok(());
        };
        let Some(prompt) = &turn.prompt else {
            return Ok(());
        };
        check_attachments(prompt, &turn.media)?;
        let mut ledger = self.media;
        for (number, part) in (1..).zip(prompt.attachments()) {
            ledger
                .admit(part, &turn.media)
                .map_err(|reason| refused(number, part, &reason))?;
        }
        Ok(())
    }

    /// True if what is counted is what the log has.
    pub(crate) fn counts_its_media(&self) -> bool {
        self.media == MediaLedger::of(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halter_protocol::limits::{
        ATTACHMENTS, ATTACHMENTS_BYTES, DOCUMENT_BYTES, IMAGE_BYTES, MANY_IMAGES,
        MANY_IMAGES_SIDE_PIXELS,
    };
    use halter_testkit::png;

    fn pdf(bytes: usize) -> ContentPart {
        let mut data = b"%PDF-1.4\n".to_vec();
        data.resize(bytes, 0);
        MediaFormat::Pdf.part(data)
    }

    fn image(side: u32) -> ContentPart {
        MediaFormat::Png.part(png(side, 1))
    }

    fn admitted(ledger: &mut MediaLedger, part: ContentPart) -> ContentPart {
        let part = ToolResult::parts([part]).into();
        match ledger.admit_result(part, &MediaLimits::default()).as_ref() {
            ToolResult::Parts { parts } => parts.first().cloned().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// The note in place of a part; none if it was taken in.
    fn note(ledger: &mut MediaLedger, part: ContentPart) -> Option<String> {
        let before = *ledger;
        let taken = admitted(ledger, part.clone());
        if taken == part {
            assert_ne!(*ledger, before);
            return None;
        }
        assert_eq!(*ledger, before, "what is left out does not count");
        Some(taken.as_text().unwrap().to_owned())
    }

    #[test]
    fn words_and_other_results_pass() {
        let mut ledger = MediaLedger::default();
        for result in [
            ToolResult::Empty,
            ToolResult::text("words"),
            ToolResult::parts([ContentPart::text("words")]),
        ] {
            let limits = MediaLimits::default();
            let result = Arc::new(result);
            assert_eq!(ledger.admit_result(result.clone(), &limits), result);
        }
        assert_eq!(ledger, MediaLedger::default());
    }

    #[test]
    fn a_session_holds_so_many_bytes() {
        let mut ledger = MediaLedger::default();
        for _ in 0..ATTACHMENTS_BYTES / DOCUMENT_BYTES {
            assert_eq!(note(&mut ledger, pdf(DOCUMENT_BYTES)), None);
        }
        assert_eq!(ledger.bytes, ATTACHMENTS_BYTES);
        let told = note(&mut ledger, pdf(9)).unwrap();
        assert_eq!(
            told,
            "[document of type application/pdf, 9 bytes, left out: the images and documents \
             of a session may have 20971520 bytes together, and this would make it 20971529; \
             make it smaller, or go on in a new session]"
        );
    }

    #[test]
    fn a_session_holds_so_many_attachments() {
        let mut ledger = MediaLedger::default();
        for _ in 0..ATTACHMENTS {
            assert_eq!(note(&mut ledger, image(1)), None);
        }
        assert!(note(&mut ledger, image(1)).unwrap().contains("100 images"));
    }

    #[test]
    fn many_images_must_be_small() {
        let mut ledger = MediaLedger::default();
        assert_eq!(note(&mut ledger, image(MANY_IMAGES_SIDE_PIXELS + 1)), None);
        for _ in 1..MANY_IMAGES {
            assert_eq!(note(&mut ledger, image(1)), None);
        }
        assert!(note(&mut ledger, image(1)).unwrap().contains("2001"));
        assert_eq!(note(&mut ledger, pdf(9)), None, "a document is no image");

        let mut ledger = MediaLedger::default();
        for _ in 0..=MANY_IMAGES {
            assert_eq!(note(&mut ledger, image(MANY_IMAGES_SIDE_PIXELS)), None);
        }
        let large = image(MANY_IMAGES_SIDE_PIXELS + 1);
        assert!(note(&mut ledger, large).is_some());
    }

    #[test]
    fn what_services_refuse_is_left_out() {
        let mut ledger = MediaLedger::default();
        let mut large = png(1, 1);
        large.resize(IMAGE_BYTES + 1, 0);
        for (part, why) in [
            (MediaFormat::Png.part(large), "may have 3932160"),
            (pdf(DOCUMENT_BYTES + 1), "may have 10485760"),
            (ContentPart::image("image/png", [1, 2, 3]), "is not"),
            (
                ContentPart::image("image/png", halter_testkit::pdf()),
                "it is application/pdf",
            ),
        ] {
            let told = note(&mut ledger, part).unwrap();
            assert!(
                told.contains(", left out: ") && told.contains(why),
                "{told}"
            );
        }
    }

    #[test]
    fn a_wrong_type_is_put_right() {
        let mut ledger = MediaLedger::default();
        let said = ContentPart::image("image/jpeg", png(2, 2));
        let taken = admitted(&mut ledger, said);
        assert_eq!(taken, ContentPart::image("image/png", png(2, 2)));
    }

    #[test]
    fn attachments_are_refused_by_their_number() {
        let message = UserMessage::text("look")
            .with_image("image/png", png(1, 1))
            .with_image("image/png", *b"no");
        let error = check_attachments(&message, &MediaLimits::default()).unwrap_err();
        assert_eq!(error.code, "attachment_refused");
        assert_eq!(
            error.message,
            "attachment 2, [image of type image/png, 2 bytes], cannot be sent: \
             it is said to be image/png and is not"
        );
    }
}
