//! Addresses of sockets whose path may be too long for one.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use rustix::net::SocketAddrUnix;

/// A directory with nothing but a link in it, for as long as this lives.
#[derive(Debug)]
pub(crate) struct ShortCut {
    directory: PathBuf,
}

impl ShortCut {
    fn to(target: &Path) -> io::Result<Self> {
        // Whoever has it first has it: no other user can enter it.
        let unique = format!("{}-{}", std::process::id(), crate::clock::now_us());
        let directory = Path::new("/tmp").join(format!("trl-{unique}"));
        fs::DirBuilder::new().mode(0o700).create(&directory)?;
        let made = Self { directory };
        symlink(fs::canonicalize(target)?, made.link())?;
        Ok(made)
    }

    fn link(&self) -> PathBuf {
        self.directory.join("to")
    }
}

impl Drop for ShortCut {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.link());
        let _ = fs::remove_dir(&self.directory);
    }
}

/// The address of a name in a directory, which may have a longer path than an
/// address can hold. It is good while what comes with it lives.
pub(crate) fn place_in(
    directory: &Path,
    name: &str,
) -> io::Result<(SocketAddrUnix, Option<ShortCut>)> {
    if let Ok(address) = SocketAddrUnix::new(directory.join(name)) {
        return Ok((address, None));
    }
    let short = ShortCut::to(directory)?;
    Ok((SocketAddrUnix::new(short.link().join(name))?, Some(short)))
}
