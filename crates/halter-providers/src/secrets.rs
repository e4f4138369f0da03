//! Values that must not be seen, and the texts they are taken out of.

use halter_protocol::{ProviderError, StreamEvent};
use secrecy::{ExposeSecret as _, SecretString};
use std::borrow::Cow;
use std::fmt;

/// What stands where a secret stood.
pub const REDACTED: &str = "[redacted]";

/// Characters below which a value is taken for a word, not for a secret:
/// taking it out of every text would only garble them.
const SHORTEST_SECRET_CHARS: usize = 8;

/// Secret values, to be taken out of texts that leave the provider.
///
/// ```
/// use halter_providers::secrets::Secrets;
///
/// let secrets = Secrets::new(["s3cr3t-key".to_owned()]);
/// assert_eq!(secrets.scrub("the key s3cr3t-key is wrong"), "the key [redacted] is wrong");
/// ```
#[derive(Clone, Default)]
pub struct Secrets {
    values: Vec<SecretString>,
}

impl Secrets {
    /// These values. Short ones are left out.
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        let mut values: Vec<String> = values
            .into_iter()
            .filter(|value| value.chars().count() >= SHORTEST_SECRET_CHARS)
            .collect();
        // A secret that contains another goes first, or a part of it stays.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self {
            values: values.into_iter().map(SecretString::from).collect(),
        }
    }

    /// The text without the secrets.
    pub fn scrub<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for secret in &self.values {
            let secret = secret.expose_secret();
            if text.contains(secret) {
                text = Cow::Owned(text.replace(secret, REDACTED));
            }
        }
        text
    }

    /// The error without the secrets.
    pub fn scrub_error(&self, mut error: ProviderError) -> ProviderError {
        self.scrub_in_place(&mut error.message);
        for text in [&mut error.hint, &mut error.request_id]
            .into_iter()
            .flatten()
        {
            self.scrub_in_place(text);
        }
        error
    }

    /// The event without the secrets, where it speaks of the service. What a
    /// model says is left as it is.
    pub fn scrub_event(&self, event: StreamEvent) -> StreamEvent {
        match event {
            StreamEvent::ProviderWarning { mut message } => {
                self.scrub_in_place(&mut message);
                StreamEvent::ProviderWarning { message }
            }
            event => event,
        }
    }

    fn scrub_in_place(&self, text: &mut String) {
        if let Cow::Owned(scrubbed) = self.scrub(text) {
            *text = scrubbed;
        }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.values.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halter_protocol::ProviderErrorKind;

    #[test]
    fn every_occurrence_goes_and_the_longest_first() {
        let secrets = Secrets::new(["abcdefgh".to_owned(), "abcdefgh-tail".to_owned()]);
        assert_eq!(
            secrets.scrub("abcdefgh-tail abcdefgh abcdefgh"),
            "[redacted] [redacted] [redacted]"
        );
        assert_eq!(format!("{secrets:?}"), "Secrets(2)");
    }

    #[test]
    fn words_are_not_secrets() {
        assert_eq!(
            Secrets::new(["model".to_owned()]).scrub("the model"),
            "the model"
        );
        assert_eq!(
            Secrets::new(["eightchr".to_owned()]).scrub("eightchr"),
            REDACTED
        );
    }

    #[test]
    fn errors_lose_them_in_every_text() {
        let secrets = Secrets::new(["topsecret".to_owned()]);
        let error = ProviderError::new("topsecret!", ProviderErrorKind::Fatal)
            .with_hint("not topsecret")
            .with_request_id("req-topsecret");
        let shown = format!("{:?}", secrets.scrub_error(error));
        assert!(!shown.contains("topsecret"), "{shown}");
    }
}
