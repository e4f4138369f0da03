//! What takes the place of paths that commands in containers may not make:
//! nearly always an empty directory, a file where Git would not work on with one.
//!
//! A list for each container is kept beside, not in, what the container sees,
//! so that the next daemon can remove what this one made.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use halter_exec::host::{make_placeholder, remove_placeholder};
use halter_protocol::encoding::{escape_path, unescape_path};

use crate::exec::types::ContainerOptions;

fn lists(state_dir: &Path) -> PathBuf {
    state_dir.join("placeholders")
}

fn read(list: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(list).unwrap_or_default();
    let paths = text.lines().filter_map(|line| unescape_path(line).ok());
    paths.collect()
}

/// The placeholders of all containers but this one.
fn of_others(state_dir: &Path, name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(lists(state_dir)).into_iter().flatten();
    let others = entries.flatten().filter(|entry| entry.file_name() != name);
    others.flat_map(|entry| read(&entry.path())).collect()
}

/// Takes the places that are free, and shares those that other containers have
/// taken: none is removed before the last that needs it.
///
/// # Errors
/// If a directory or the list cannot be made.
pub(super) fn make(state_dir: &Path, name: &str, paths: &[PathBuf]) -> io::Result<()> {
    if paths.is_empty() {
        return Ok(());
    }
    let taken = of_others(state_dir, name);
    let is_ours = |path: &&PathBuf| path.symlink_metadata().is_err() || taken.contains(path);
    let ours: Vec<&PathBuf> = paths.iter().filter(is_ours).collect();
    // Noted first: what is made is removed, whatever happens in between.
    let text: String = ours.iter().map(|path| escape_path(path) + "\n").collect();
    fs::create_dir_all(lists(state_dir))?;
    fs::write(lists(state_dir).join(name), text)?;
    ours.into_iter().try_for_each(|path| take(path))
}

/// Takes the places again that have become free while the container is up, and
/// takes more. One with nothing around it is left: what is made there later is
/// new.
///
/// # Errors
/// If something or the list cannot be made.
pub(super) fn make_again<'a>(
    state_dir: &Path,
    name: &str,
    options: &ContainerOptions,
    paths: impl Iterator<Item = &'a PathBuf>,
) -> io::Result<()> {
    let is_free = |path: &&PathBuf| {
        path.symlink_metadata().is_err()
            && path.parent().is_some_and(Path::is_dir)
            && options.writable_root(path).is_some()
    };
    let free: Vec<&PathBuf> = paths.filter(is_free).collect();
    if free.is_empty() {
        return Ok(());
    }
    let list = lists(state_dir).join(name);
    let mut all: BTreeSet<PathBuf> = read(&list).into_iter().collect();
    all.extend(free.iter().map(|path| path.to_path_buf()));
    let text: String = all.iter().map(|path| escape_path(path) + "\n").collect();
    fs::create_dir_all(lists(state_dir))?;
    fs::write(list, text)?;
    for path in free {
        // A link that a command has made must not have this program do it.
        let root = options.writable_root(path).unwrap_or(path);
        let around = path.parent().unwrap_or(path).canonicalize()?;
        if around.starts_with(root.canonicalize()?) {
            take(path)?;
        }
    }
    Ok(())
}

fn take(path: &Path) -> io::Result<()> {
    make_placeholder(&without_links(path)?)
}

fn without_links(path: &Path) -> io::Result<PathBuf> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    Ok(parent.canonicalize()?.join(name))
}

/// Gives the places free that no other container needs. What somebody else has
/// put there stays.
pub(in crate::exec) fn remove(state_dir: &Path, name: &str) {
    let list = lists(state_dir).join(name);
    let ours = read(&list);
    if fs::remove_file(&list).is_err() {
        return;
    }
    let needed = of_others(state_dir, name);
    for path in ours.iter().filter(|path| !needed.contains(path)) {
        let removed = without_links(path).and_then(|path| remove_placeholder(&path));
        if let Err(error) = removed {
            tracing::debug!(path = %path.display(), %error, "a placeholder stays");
        }
    }
    // Gone with the last list.
    let _ = fs::remove_dir(lists(state_dir));
}

/// The containers that placeholders were made for.
pub(in crate::exec) fn named(state_dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(lists(state_dir)).into_iter().flatten();
    let names = entries.flatten().map(|entry| entry.file_name());
    names
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg_attr(
        any(not(target_os = "linux"), halter_portable),
        ignore = "there are no containers here"
    )]
    #[test]
    fn a_place_is_free_again_with_the_last_that_needs_it() {
        let directory = tempfile::tempdir().unwrap();
        let [state, work] = ["state", "work"].map(|name| directory.path().join(name));
        fs::create_dir_all(work.join("own")).unwrap();
        let [made, own] = ["made", "own"].map(|name| work.join(name));
        let both = [made.clone(), own.clone()];
        make(&state, "a", &both).unwrap();
        make(&state, "b", &both).unwrap();
        assert!(made.is_dir());
        assert_eq!(named(&state).len(), 2);
        remove(&state, "a");
        assert!(made.is_dir());
        remove(&state, "b");
        // A user's own empty directory is no placeholder.
        assert!(!made.exists() && own.is_dir());
        assert!(!lists(&state).exists());
        make(&state, "c", std::slice::from_ref(&made)).unwrap();
        fs::write(made.join("kept"), "").unwrap();
        remove(&state, "c");
        assert!(made.join("kept").exists());
    }
}
