//! An output style.

use crate::content::ContentName;
use crate::header::{Document, Malformed, first_paragraph, one_line};
use crate::limits::MAX_DESCRIPTION_CHARS;
use crate::name::usable_name;
use halter_protocol::{OutputStyleDef, ResourceOrigin};
use serde::Deserialize;
use std::path::Path;

/// An output style read from disk, or made in code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedOutputStyle {
    /// What it says.
    pub definition: OutputStyleDef,
}

impl From<OutputStyleDef> for LoadedOutputStyle {
    fn from(definition: OutputStyleDef) -> Self {
        Self { definition }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct OutputStyleHeader {
    name: Option<String>,
    description: Option<String>,
    keep_coding_instructions: Option<bool>,
}

impl LoadedOutputStyle {
    /// Reads the text of an output style.
    pub(crate) fn parse(
        path: &Path,
        origin: &ResourceOrigin,
        text: &str,
    ) -> Result<Self, Malformed> {
        let Document { header, body, .. } = Document::<OutputStyleHeader>::parse(text)?;
        let header = header.unwrap_or_default();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let name = header.name.as_deref().or(stem).unwrap_or_default();
        if body.trim().is_empty() {
            return Err(Malformed::new("it says nothing after its frontmatter"));
        }
        let description = match &header.description {
            Some(text) => one_line(text, MAX_DESCRIPTION_CHARS).0,
            None => one_line(&first_paragraph(body), MAX_DESCRIPTION_CHARS).0,
        };
        let definition = OutputStyleDef {
            name: usable_name(name).map_err(Malformed::new)?,
            description,
            prompt: body.trim().to_owned(),
            keeps_guidance: header.keep_coding_instructions.unwrap_or_default(),
            path: path.to_owned(),
            origin: origin.clone(),
        };
        Ok(Self { definition })
    }

    /// What the style is called by its content, wherever its file is.
    pub(crate) fn content_name(&self) -> String {
        let mut placeless = self.definition.clone();
        placeless.path = Default::default();
        let written = serde_json::to_vec(&placeless).unwrap_or_default();
        ContentName::default().field(written).finish("sty")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_style_says_whether_the_guidance_stays() {
        let text = "---\nname: Terse\ndescription: Few words.\nkeep-coding-instructions: true\n---\nBe brief.\n";
        let parse = |text: &str| {
            LoadedOutputStyle::parse(Path::new("/s/terse.md"), &ResourceOrigin::User, text)
                .map(|style| style.definition)
        };
        let style = parse(text).unwrap();
        assert_eq!((style.name.as_str(), style.keeps_guidance), ("Terse", true));
        assert_eq!(style.prompt, "Be brief.");
        let plain = parse("Be brief.").unwrap();
        assert_eq!(
            (plain.name.as_str(), plain.keeps_guidance),
            ("terse", false)
        );
        assert_eq!(plain.description, "Be brief.");
        assert!(parse("---\nname: a\n---\n").is_err());
        assert!(parse("---\nname: a/b\n---\nx").is_err());
    }
}
