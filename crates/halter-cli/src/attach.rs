//! Files that go with a message: images, PDFs and texts.
//!
//! The user names them, so policy has no say; what can be sent does.

use crate::failure::{Failure, file_problem, usage};
use crate::limits::MAX_ATTACHED_TEXT_BYTES;
use halter_protocol::limits::DOCUMENT_BYTES;
use halter_protocol::{ContentPart, MediaFormat, UserMessage};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A file that is read and can be sent.
#[derive(Debug, Clone)]
pub struct Attachment {
    /// As the user spelled it.
    pub name: String,
    /// What it is.
    pub part: ContentPart,
}

/// Reads all the files, in their order.
pub fn read_all(paths: &[PathBuf]) -> Result<Vec<Attachment>, Failure> {
    paths.iter().map(|path| read(path)).collect()
}

/// Reads a file and checks that it can be sent.
pub fn read(path: &Path) -> Result<Attachment, Failure> {
    let unreadable = |error| file_problem("attach", path, &error);
    let mut data = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    // One byte more tells a file that is too large from one that fits.
    file.take(DOCUMENT_BYTES as u64 + 1)
        .read_to_end(&mut data)
        .map_err(unreadable)?;
    let name = path.display().to_string();
    let is_text = MediaFormat::detect(&data).is_none();
    let cannot = |why: &str, hint: &str| usage(format!("could not attach {name}: {why}"), hint);
    let bytes = data.len();
    let Some(part) = ContentPart::from_file_bytes(path, data) else {
        return Err(cannot(
            "it is no image (PNG, JPEG, GIF, WebP), PDF or UTF-8 text",
            "convert it, or name the file in the task and let the model look at it",
        ));
    };
    if is_text && bytes > MAX_ATTACHED_TEXT_BYTES {
        return Err(cannot(
            &format!("it is a text of more than {MAX_ATTACHED_TEXT_BYTES} bytes"),
            "name the file in the task and let the model read it",
        ));
    }
    match part.check() {
        Ok(()) => Ok(Attachment { name, part }),
        Err(problem) => {
            let problem = problem.to_string();
            let (why, hint) = problem
                .split_once("; ")
                .unwrap_or((&problem, "attach another file"));
            Err(cannot(why, hint))
        }
    }
}

/// What the user says, and the files that go with it, each with its name.
pub fn message(
    message: UserMessage,
    attachments: impl IntoIterator<Item = Attachment>,
) -> UserMessage {
    attachments.into_iter().fold(message, |message, file| {
        let name = ContentPart::text(format!("Attached file: {}", file.name));
        message.with_part(name).with_part(file.part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use halter::HalterError;
    use halter_testkit::{pdf, png};

    struct Files(tempfile::TempDir);

    impl Files {
        fn put(&self, name: &str, data: &[u8]) -> PathBuf {
            let path = self.0.path().join(name);
            std::fs::write(&path, data).unwrap();
            path
        }

        fn refused(&self, name: &str, data: &[u8]) -> HalterError {
            match read(&self.put(name, data)).unwrap_err() {
                Failure::Error(error, _) => error,
                other => panic!("{other:?}"),
            }
        }
    }

    fn files() -> Files {
        Files(tempfile::tempdir().unwrap())
    }

    #[test]
    fn files_are_attached_by_what_they_are() {
        let files = files();
        let image = files.put("a.png", &png(2, 2));
        let paths = [
            image.clone(),
            files.put("b.pdf", &pdf()),
            files.put("c.md", b"# words"),
        ];
        let message = message(UserMessage::text("look"), read_all(&paths).unwrap());
        let expected = [
            ContentPart::image("image/png", png(2, 2)),
            ContentPart::document("application/pdf", pdf()),
            ContentPart::document("text/markdown", *b"# words"),
        ];
        assert!(message.attachments().eq(&expected));
        let said = message.plain_text();
        let start = format!("look\nAttached file: {}\n", image.display());
        assert!(said.starts_with(&start), "{said}");
    }

    #[test]
    fn what_cannot_be_sent_is_refused_with_a_way_out() {
        let files = files();
        let problem = files.refused("a.zip", b"PK\x03\x04\0");
        assert_eq!(problem.code(), "usage");
        assert!(problem.to_string().contains("no image"), "{problem:?}");
        let problem = files.refused("a.png", &png(9_000, 1));
        assert!(
            problem.to_string().ends_with("8000 on each side"),
            "{problem:?}"
        );
        assert_eq!(problem.hint(), Some("scale it down or take a part of it"));
        let missing = read(&files.0.path().join("missing.png")).unwrap_err();
        assert!(format!("{missing:?}").contains("check the path"));
        assert!(read(files.0.path()).is_err(), "a directory");
    }

    #[test]
    fn sizes_hold_at_their_edge() {
        let files = files();
        let words = vec![b'x'; MAX_ATTACHED_TEXT_BYTES + 1];
        let fits = words.get(1..).unwrap();
        assert!(read(&files.put("a.txt", fits)).is_ok());
        let problem = files.refused("a.txt", &words);
        assert!(problem.hint().unwrap().contains("let the model read it"));

        let mut document = pdf();
        document.resize(DOCUMENT_BYTES + 1, 0);
        let problem = files.refused("a.pdf", &document);
        assert!(problem.to_string().contains("10485760"), "{problem:?}");
        document.pop();
        assert!(read(&files.put("a.pdf", &document)).is_ok());
    }
}
