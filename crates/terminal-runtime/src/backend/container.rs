//! What a session in a container has of the runtime's machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use halter_protocol::encoding::unescape_path;
use halter_tools::exec::partly_searched_workspace;
use halter_tools::policy::{SandboxBounds, SandboxMode};

use super::Shared;
use super::held::not_told;
use super::session::{RuntimeSession, text};
use crate::client::Target;
use crate::protocol::{DockerParams, MountParams};

/// What a path leads to on the machine that containers are made on.
#[derive(Debug)]
struct MountSource {
    /// Free of links.
    real: PathBuf,
    is_dir: bool,
}

impl Shared {
    /// Fails if the runtime has no containers, or a mount does not exist.
    pub(super) async fn check_container(&self) -> anyhow::Result<()> {
        let Some(image) = &self.settings.container else {
            return Ok(());
        };
        for path in &self.settings.mounts {
            let is_there = match self.client.target() {
                _ if self.has_file_methods() => self.source_there(path).await?.is_some(),
                Target::Socket(_) => path.exists(),
                // Nobody can say; the engine does when it makes the container.
                _ => true,
            };
            if !is_there {
                bail!(missing_mount(path));
            }
        }
        let levels = self.levels().await?;
        let level = levels.iter().find(|level| level.name == "container");
        match level {
            Some(level) if level.state == "enforced" => Ok(()),
            level => bail!(
                "exec.container: the runtime at {} cannot make containers of {image}: {}",
                self.client.target(),
                level
                    .and_then(|level| level.reason.as_deref())
                    .unwrap_or("it does not say why")
            ),
        }
    }

    /// What a path leads to at the runtime, if to anything.
    async fn source_there(&self, path: &Path) -> anyhow::Result<Option<MountSource>> {
        let found = self.file_entry(path, Path::new("/")).await?;
        let Some(kind) = &found.kind else {
            return Ok(None);
        };
        Ok(Some(MountSource {
            real: unescape_path(&found.path)
                .with_context(|| format!("the real path of '{}'", path.display()))?,
            is_dir: kind == "directory",
        }))
    }
}

impl RuntimeSession {
    /// What a path leads to where containers are made, if to anything.
    async fn source(&self, path: &Path) -> anyhow::Result<Option<MountSource>> {
        if self.has_files_there() {
            return self.shared.source_there(path).await;
        }
        match path.canonicalize() {
            Ok(real) => Ok(Some(MountSource {
                is_dir: real.is_dir(),
                real,
            })),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                Err(error).with_context(|| format!("'{}' cannot be mounted", path.display()))
            }
        }
    }

    /// The path, or the first directory on the way to it that is not there.
    async fn first_missing(&self, path: &Path) -> anyhow::Result<PathBuf> {
        let mut missing = path;
        for part in path.ancestors() {
            if self.source(part).await?.is_some() {
                break;
            }
            missing = part;
        }
        Ok(missing.to_path_buf())
    }

    /// Keeps paths from being changed, made or moved away. Gives those that are
    /// not there, in whose place something has to be.
    async fn protect(
        &self,
        paths: &[&PathBuf],
        writable: &[PathBuf],
        mounts: &mut Vec<MountParams>,
    ) -> anyhow::Result<Vec<String>> {
        let covers = |path: &Path| writable.iter().any(|root| path.starts_with(root));
        let (mut protected, mut between) = (BTreeSet::new(), BTreeSet::new());
        for path in paths {
            let path = self.first_missing(path).await?;
            if !covers(&path) && self.source(&path).await?.is_none() {
                // Nobody can make it there.
                continue;
            }
            // A mount cannot be moved away, so what leads to it is one, too.
            let is_between = |it: &&Path| covers(it) && !writable.iter().any(|root| root == *it);
            let parents = path.ancestors().skip(1).take_while(is_between);
            between.extend(parents.map(Path::to_path_buf));
            protected.insert(path);
        }
        for path in between {
            mounts.push(bind(&path, &path, false)?);
        }
        for path in &protected {
            mounts.push(bind(path, path, true)?);
        }
        protected
            .into_iter()
            .filter(|path| covers(path))
            .map(text)
            .collect()
    }

    /// Covers paths.
    async fn hide(&self, paths: &[&PathBuf], mounts: &mut Vec<MountParams>) -> anyhow::Result<()> {
        for path in paths {
            let source = self.source(path).await?;
            mounts.push(match source.is_some_and(|it| it.is_dir) {
                true => MountParams {
                    source: None,
                    target: text(path.to_path_buf())?,
                    read_only: false,
                },
                false => bind(Path::new("/dev/null"), path, true)?,
            });
        }
        Ok(())
    }

    /// The session's directories under their own names, writable as the policy
    /// says; what is hidden is covered.
    pub(super) async fn container_params(
        &self,
        bounds: &SandboxBounds,
    ) -> anyhow::Result<DockerParams> {
        let image = self.shared.settings.container.clone();
        let directory = &self.spec.working_dir;
        let Some(source) = self.source(directory).await? else {
            bail!(
                "'{}' cannot be mounted: it does not exist where containers are made",
                directory.display()
            );
        };
        let real = source.real;
        let mut writable = Vec::new();
        for root in &bounds.writable {
            // One that is not there yet cannot be mounted.
            if self.source(root).await?.is_some() {
                writable.push(root.clone());
            }
        }
        if bounds.mode == SandboxMode::Off {
            writable.push(real.clone());
        }
        let covers = |path: &Path| writable.iter().any(|root| path.starts_with(root));
        let mut mounts = Vec::new();
        if !covers(&real) {
            mounts.push(bind(&real, &real, true)?);
        }
        for root in &writable {
            mounts.push(bind(root, root, false)?);
        }
        if *directory != real {
            mounts.push(bind(&real, directory, !covers(&real))?);
        }
        let given = &self.shared.settings.mounts;
        for path in given.iter().filter(|path| !covers(path)) {
            if self.source(path).await?.is_none() {
                bail!(missing_mount(path));
            }
            mounts.push(bind(path, path, true)?);
        }
        let inside = |path: &&PathBuf| {
            path.starts_with(&real) || covers(path) || given.iter().any(|it| path.starts_with(it))
        };
        let protected: Vec<&PathBuf> = bounds.protected.iter().filter(inside).collect();
        let placeholders = self.protect(&protected, &writable, &mut mounts).await?;
        let hidden: Vec<&PathBuf> = bounds.hidden.iter().filter(inside).collect();
        self.hide(&hidden, &mut mounts).await?;
        if *directory != real {
            // What holds inside of the directory holds under its other name.
            let inner = mounts.iter().filter_map(|mount| {
                let rest = Path::new(&mount.target).strip_prefix(&real).ok()?;
                (rest != Path::new("")).then(|| (directory.join(rest), mount.clone()))
            });
            let inner: Vec<_> = inner.collect();
            for (target, mount) in inner {
                mounts.push(MountParams {
                    target: text(target)?,
                    ..mount
                });
            }
        }
        Ok(DockerParams {
            image: image.unwrap_or_default(),
            mounts,
            placeholders,
            no_network: self.spec.network.is_closed(),
            own_user: true,
        })
    }
}

/// What a container does not hold of these bounds.
pub(super) fn not_held_in_a_container(bounds: &SandboxBounds) -> Vec<String> {
    let mut missing = Vec::new();
    if bounds.network {
        missing.push("the list of hosts, for programs".to_owned());
    }
    if bounds.programs.is_some() {
        missing.push("the list of programs, beyond the judge".to_owned());
    }
    if bounds.more_repositories > 0 {
        missing.push(format!(
            "hooks and settings of {} more repositories below writable directories",
            bounds.more_repositories
        ));
    }
    missing.extend(partly_searched_workspace(bounds));
    missing.extend(bounds.elsewhere.as_deref().and_then(not_told));
    missing
}

fn missing_mount(path: &Path) -> String {
    format!(
        "exec.mounts: '{}' does not exist; make it, or take it out",
        path.display()
    )
}

fn bind(source: &Path, target: &Path, read_only: bool) -> anyhow::Result<MountParams> {
    Ok(MountParams {
        source: Some(text(source.to_owned())?),
        target: text(target.to_owned())?,
        read_only,
    })
}
