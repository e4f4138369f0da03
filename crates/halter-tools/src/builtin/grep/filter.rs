//! Which files `grep` and `ast_grep` look into.

use super::super::walk::{HiddenNames, path_glob};
use anyhow::{anyhow, bail};
use globset::GlobMatcher;
use ignore::types::{Types, TypesBuilder};
use std::path::Path;

/// The `glob` and `type` of a call.
pub(in crate::builtin) struct FileFilter {
    glob: Option<(GlobMatcher, Keep)>,
    pattern: String,
    types: Option<Types>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Matching,
    Others,
}

impl FileFilter {
    pub(in crate::builtin) fn new(glob: Option<&str>, kind: Option<&str>) -> anyhow::Result<Self> {
        let types = kind.map(types).transpose()?;
        let Some(text) = glob else {
            return Ok(Self {
                glob: None,
                pattern: String::new(),
                types,
            });
        };
        let (pattern, keep) = match text.strip_prefix('!') {
            Some(rest) => (rest, Keep::Others),
            None => (text, Keep::Matching),
        };
        // As in ignore files: a pattern without a directory applies anywhere.
        let trimmed = pattern.trim_start_matches("./");
        let anchored = match trimmed.strip_prefix('/') {
            Some(rest) => rest.to_owned(),
            None if trimmed.contains('/') => trimmed.to_owned(),
            None => format!("**/{trimmed}"),
        };
        let matcher = path_glob(&anchored)
            .map_err(|error| anyhow!("`glob` '{text}' is not a glob pattern: {}", error.kind()))?;
        Ok(Self {
            glob: Some((matcher, keep)),
            pattern: match keep {
                Keep::Matching => pattern.to_owned(),
                Keep::Others => String::new(),
            },
            types,
        })
    }

    /// Whether a file, by its path below the searched directory, is looked
    /// into.
    pub(in crate::builtin) fn admits(&self, below: &Path) -> bool {
        match &self.glob {
            None => true,
            Some((matcher, keep)) => matcher.is_match(below) == (*keep == Keep::Matching),
        }
    }

    pub(in crate::builtin) fn hidden(&self) -> HiddenNames {
        HiddenNames::named_in(&self.pattern)
    }

    pub(in crate::builtin) fn take_types(&mut self) -> Option<Types> {
        self.types.take()
    }
}

fn types(name: &str) -> anyhow::Result<Types> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    let known: Vec<String> = builder
        .definitions()
        .iter()
        .map(|definition| definition.name().to_owned())
        .collect();
    if !known.iter().any(|known| known == name) {
        let name = crate::suggest::shortened(name);
        match crate::suggest::nearest(&name, &known, |known| known.as_str()) {
            Some(near) => bail!("there is no file type '{name}'; did you mean '{near}'?"),
            None => bail!("there is no file type '{name}'; use `glob` with a pattern instead"),
        }
    }
    Ok(builder.select(name).build()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_apply_as_in_ignore_files() {
        for (glob, path, expected) in [
            ("*.rs", "a/b/lib.rs", true),
            ("*.{rs,toml}", "Cargo.toml", true),
            ("src/*.rs", "src/lib.rs", true),
            ("src/*.rs", "a/src/lib.rs", false),
            ("/lib.rs", "lib.rs", true),
            ("/lib.rs", "a/lib.rs", false),
            ("!*.rs", "lib.rs", false),
            ("!*.rs", "lib.c", true),
        ] {
            let filter = FileFilter::new(Some(glob), None).unwrap();
            assert_eq!(filter.admits(Path::new(path)), expected, "{glob} {path}");
        }
    }

    #[test]
    fn unknown_types_get_a_suggestion() {
        let error = FileFilter::new(None, Some("rustt")).err().unwrap();
        assert_eq!(
            error.to_string(),
            "there is no file type 'rustt'; did you mean 'rust'?"
        );
        assert!(FileFilter::new(None, Some("python")).is_ok());
    }
}
