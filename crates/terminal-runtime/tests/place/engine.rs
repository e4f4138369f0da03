//! A container engine of a test's own, with an image that it makes.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::place::IMAGE;

/// What the image of the tests has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Image {
    /// A shell and its tools in one file.
    Busybox,
    /// Nothing but places where this machine's programs are mounted.
    Mounted,
}

/// What of this machine a container of [`Image::Mounted`] sees.
pub fn mounted_programs() -> Vec<PathBuf> {
    ["/usr", "/etc"].map(PathBuf::from).to_vec()
}

/// A program that makes containers in a directory of its own, with an image of
/// busybox; `None` where that cannot be.
pub fn engine(directory: &Path) -> Option<PathBuf> {
    engine_with(directory, Image::Busybox)
}

/// The same with another image.
pub fn engine_with(directory: &Path, image: Image) -> Option<PathBuf> {
    let missing = |what: &str| println!("skipped: needs {what}");
    if !rustix::process::geteuid().is_root() || !Path::new("/usr/bin/podman").exists() {
        missing("podman");
        return None;
    }
    let root = directory.join("image");
    for name in ["tmp", "etc", "proc", "dev", "usr"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    match image {
        Image::Busybox => {
            let Some(busybox) = ["/bin/busybox", "/usr/bin/busybox"]
                .into_iter()
                .find(|path| Path::new(path).exists())
            else {
                missing("busybox");
                return None;
            };
            std::fs::create_dir_all(root.join("bin")).unwrap();
            std::fs::copy(busybox, root.join("bin/busybox")).unwrap();
            let listed = Command::new(busybox).arg("--list").output().unwrap();
            for name in String::from_utf8(listed.stdout).unwrap().lines() {
                let _ = std::os::unix::fs::symlink("busybox", root.join("bin").join(name));
            }
        }
        Image::Mounted => {
            for name in ["bin", "sbin", "lib", "lib64"] {
                std::os::unix::fs::symlink(format!("usr/{name}"), root.join(name)).unwrap();
            }
        }
    }
    let configuration = directory.join("containers.conf");
    let text = "[containers]\nnetns = \"host\"\n\
                default_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\n\
                [engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\n\
                events_logger = \"none\"\n";
    std::fs::write(&configuration, text).unwrap();
    let program = directory.join("podman");
    let script = format!(
        "#!/bin/sh\nexport CONTAINERS_CONF={configuration}\n\
         exec /usr/bin/podman --root {place}/root --runroot {place}/run --storage-driver vfs \"$@\"\n",
        configuration = configuration.display(),
        place = directory.display(),
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let archive = directory.join("image.tar");
    let packed = Command::new("tar")
        .arg("-C")
        .arg(&root)
        .arg("-cf")
        .arg(&archive)
        .arg(".")
        .status();
    assert!(packed.unwrap().success());
    let import = Command::new(&program)
        .arg("import")
        .arg(&archive)
        .arg(IMAGE)
        .output();
    let mut run = Command::new(&program);
    run.args(["run", "--rm"]);
    if image == Image::Mounted {
        run.args(["-v", "/usr:/usr:ro"]);
    }
    let works = import.unwrap().status.success()
        && run
            .args([IMAGE, "/bin/true"])
            .output()
            .unwrap()
            .status
            .success();
    if !works {
        missing("podman that can run a container");
        return None;
    }
    Some(program)
}
