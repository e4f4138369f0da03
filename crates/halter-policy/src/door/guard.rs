//! What stays closed inside the roots: sensitive files and the harness's own.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::{Access, PolicyError};
use crate::limits::MAX_SECRET_NAMES;
use crate::permission::{PathPattern, Permissions, RuleAnchors, SourcedRule, resolved};
use crate::settings::{PolicySettings, SessionScope};
use halter_protocol::{RuleEffect, RuleSubject};

use super::sensitive::{Patterns, fold};
use super::spelled;

/// Checks a path, spelled or resolved, against everything that stays closed.
#[derive(Debug)]
pub(super) struct ClosedPaths {
    /// Closed to every access.
    sensitive: Patterns,
    /// Closed to writing.
    write_protected: Patterns,
    protected: Vec<Protected>,
    /// Those of the session's own that stay as they are.
    read_only: Vec<Protected>,
    denied: Vec<DeniedPaths>,
    /// Directories in which closed files usually lie.
    secret_places: Vec<PathBuf>,
}

/// Files that a deny rule closes.
#[derive(Debug)]
struct DeniedPaths {
    pattern: PathPattern,
    /// What the rule closes: reading, and with it writing, or writing alone.
    access: Access,
    rule: String,
}

/// A path of the harness's own.
#[derive(Debug)]
struct Protected {
    path: PathBuf,
    /// Spelled and resolved, case folded: what a path must not lie in.
    folded: Vec<PathBuf>,
}

impl ClosedPaths {
    pub(super) fn bind(
        settings: &PolicySettings,
        scope: &SessionScope,
        working_dir: &Path,
    ) -> Result<Self, PolicyError> {
        let (sensitive, write_protected) = match &settings.sensitive_path_patterns {
            None => (
                Patterns::builtin_sensitive(working_dir)?,
                Patterns::builtin_write_protected(working_dir)?,
            ),
            Some(patterns) => (
                Patterns::compile(patterns.iter().map(String::as_str), working_dir)?,
                Patterns::none(),
            ),
        };
        let own = |paths: &[PathBuf]| -> Vec<Protected> {
            let paths = paths.iter();
            let paths = paths.map(|path| spelled::configured(path, working_dir));
            paths.map(|path| Protected::new(&path)).collect()
        };
        let protected = own(&scope.protected);
        let read_only = own(&scope.read_only);
        let home = settings.permissions.home.as_deref();
        let in_home = ["", ".ssh", ".aws", ".gnupg", ".docker", ".kube"];
        let in_home = home.map(|home| in_home.map(|name| home.join(name)));
        let own = scope.protected.iter();
        let secret_places = own
            .map(|path| spelled::configured(path, working_dir))
            .chain(in_home.into_iter().flatten())
            .chain([working_dir.to_path_buf()]);
        Ok(Self {
            sensitive,
            write_protected,
            protected,
            read_only,
            denied: denied(&settings.permissions, working_dir)?,
            secret_places: secret_places.collect(),
        })
    }

    /// Fails if the path, or a directory it lies in, stays closed.
    pub(super) fn check(&self, path: &Path, access: Access) -> Result<(), PolicyError> {
        let folded = fold(path);
        if self.protected.iter().any(|own| own.covers(&folded)) {
            return Err(PolicyError::ProtectedPath {
                path: path.to_path_buf(),
                access,
            });
        }
        let is_written = access == Access::Write;
        if is_written && self.read_only.iter().any(|own| own.covers(&folded)) {
            let path = path.to_path_buf();
            return Err(PolicyError::ReadOnlyPath { path });
        }
        let denies = |it: &&DeniedPaths| {
            let concerns = it.access == Access::Read || access == Access::Write;
            concerns && it.pattern.closes_folded(&folded)
        };
        if let Some(denied) = self.denied.iter().find(denies) {
            return Err(PolicyError::RuleDenied {
                path: path.to_path_buf(),
                access,
                rule: denied.rule.clone(),
            });
        }
        let pattern = self.sensitive.matching(&folded).or_else(|| match access {
            Access::Read => None,
            Access::Write => self.write_protected.matching(&folded),
        });
        match pattern {
            None => Ok(()),
            Some(pattern) => Err(PolicyError::SensitivePathDenied {
                path: path.to_path_buf(),
                access,
                pattern: pattern.to_owned(),
            }),
        }
    }

    /// Fails if an open file is one that stays closed under another name, that
    /// is, through a hard link. Only the places are searched in which such
    /// files usually lie, and not below them.
    pub(super) fn check_identity(
        &self,
        file: &Metadata,
        path: &Path,
        access: Access,
    ) -> Result<(), PolicyError> {
        if file.nlink() <= 1 {
            return Ok(());
        }
        if self.protected.iter().any(|own| own.is_same_file(file)) {
            return Err(PolicyError::ProtectedPath {
                path: path.to_path_buf(),
                access,
            });
        }
        let around = path.parent().map(Path::to_path_buf);
        for place in self.secret_places.iter().chain(&around) {
            let Ok(names) = std::fs::read_dir(place) else {
                continue;
            };
            for name in names.take(MAX_SECRET_NAMES).flatten() {
                let same = |it: Metadata| it.dev() == file.dev() && it.ino() == file.ino();
                let secret = name.path();
                let closed = self.check(&secret, access);
                if closed.is_err() && name.metadata().is_ok_and(same) {
                    return closed;
                }
            }
        }
        Ok(())
    }
}

/// The files that deny rules close.
fn denied(permissions: &Permissions, working_dir: &Path) -> Result<Vec<DeniedPaths>, PolicyError> {
    let anchors = RuleAnchors::new(working_dir, permissions.home.clone());
    let rules = permissions.rules.iter();
    let deny = rules.filter(|rule| rule.effect == RuleEffect::Deny);
    let paths = deny.filter_map(|rule| match rule.rule.subject() {
        RuleSubject::Read(pattern) => Some((rule, pattern, Access::Read)),
        RuleSubject::Edit(pattern) => Some((rule, pattern, Access::Write)),
        _ => None,
    });
    let compile = |(rule, pattern, access): (&SourcedRule, &String, Access)| {
        Ok(DeniedPaths {
            pattern: PathPattern::compile(pattern, rule, &anchors)?,
            access,
            rule: rule.described(),
        })
    };
    paths.map(compile).collect()
}

impl Protected {
    fn new(path: &Path) -> Self {
        let mut folded = vec![fold(path)];
        folded.push(fold(&resolved(path)));
        Self {
            path: path.to_path_buf(),
            folded,
        }
    }

    fn covers(&self, folded: &Path) -> bool {
        self.folded.iter().any(|own| folded.starts_with(own))
    }

    fn is_same_file(&self, file: &Metadata) -> bool {
        std::fs::metadata(&self.path)
            .is_ok_and(|own| own.dev() == file.dev() && own.ino() == file.ino())
    }
}
