//! Sockets of other programs in the file system: no mount that cannot be
//! written to, and no rule of the kernel, keeps anybody from connecting to one.

use std::collections::BTreeSet;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Sockets that are hidden; a machine with more is a strange one.
const MOST: usize = 1_000;

/// Places that are fresh in a sandbox of name spaces, so nothing is hidden
/// there.
const FRESH: [&str; 3] = ["/run", "/tmp", "/var/tmp"];

/// Those that are bound to a path in this network, but for the ones below
/// these directories, which commands work in.
pub(super) fn bound_sockets(writable: &[PathBuf]) -> Vec<PathBuf> {
    let left_out = FRESH.iter().map(PathBuf::from);
    sockets_outside(&left_out.chain(writable.iter().cloned()).collect::<Vec<_>>())
}

fn sockets_outside(left_out: &[PathBuf]) -> Vec<PathBuf> {
    let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    sockets_in(&table, left_out)
}

fn sockets_in(table: &str, left_out: &[PathBuf]) -> Vec<PathBuf> {
    // The path is all that stands after seven columns.
    let paths = table.lines().filter_map(|line| {
        let path = line.find(" /").and_then(|at| line.get(at + 1..))?;
        Path::new(path).canonicalize().ok()
    });
    // The table has a line for each connection, too.
    let sockets: BTreeSet<PathBuf> = paths
        .filter(|path| {
            let kind = path.symlink_metadata().map(|found| found.file_type());
            kind.is_ok_and(|kind| kind.is_socket())
                && !left_out.iter().any(|place| path.starts_with(place))
        })
        .collect();
    sockets.into_iter().take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn sockets_outside_the_workspace_are_found_by_the_kernels_table() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("work")).unwrap();
        let outside = root.join("a b.sock");
        let _listening = [
            UnixListener::bind(&outside).unwrap(),
            UnixListener::bind(root.join("work/own.sock")).unwrap(),
        ];
        let found = sockets_outside(&[root.join("work")]);
        assert!(found.contains(&outside), "{found:?}");
        assert!(!found.iter().any(|path| path.starts_with(root.join("work"))));
    }

    #[test]
    fn so_many_sockets_are_found_and_their_connections_do_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let [first, last] = ["first", "last"].map(|name| root.join(name));
        let _listening = [&first, &last].map(|path| UnixListener::bind(path).unwrap());
        let line = |path: &Path| format!("0: 2 0 10000 1 1 7 {}\n", path.display());
        let table = [line(&first).repeat(MOST), line(&last)].concat();
        assert_eq!(sockets_in(&table, &[]), [first, last]);
    }
}
