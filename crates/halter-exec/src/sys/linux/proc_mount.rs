//! A `/proc` that is to be mounted anew over the one that is there, so that
//! it shows the processes of another PID namespace and nothing else that the
//! old one does not.

use std::ffi::{CStr, CString, c_int, c_ulong};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// Mounted below `/proc` by most systems, and of no use to commands.
const HARMLESS: &str = "/sys/fs/binfmt_misc";

/// A mount of `proc` to be made.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProcMount {
    place: CString,
    read_only: bool,
    /// The options of the one that is there, such as `hidepid=invisible`.
    options: CString,
}

/// Plans mounts over the `proc` file systems at these places.
pub(super) fn plan(places: &[impl AsRef<Path>]) -> io::Result<Vec<ProcMount>> {
    let mounts = fs::read("/proc/self/mountinfo")?;
    let mounts = String::from_utf8_lossy(&mounts);
    let mut planned: Vec<ProcMount> = Vec::with_capacity(places.len());
    for place in places {
        let place = fs::canonicalize(place)?;
        let mount = over(&mounts, &place).map_err(io::Error::other)?;
        if !planned.contains(&mount) {
            planned.push(mount);
        }
    }
    Ok(planned)
}

/// The mount over the one at `place`, given all mounts.
fn over(mounts: &str, place: &Path) -> Result<ProcMount, String> {
    let shown = place.display();
    let point = escaped(&place.to_string_lossy());
    let mut found = None;
    for line in mounts.lines() {
        let Some((mount, file_system)) = line.split_once(" - ") else {
            continue;
        };
        let mut fields = mount.split(' ').skip(3);
        let (Some(root), Some(at), Some(options)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        if at == point {
            // A later line is of a mount on top of an earlier one.
            found = Some((root, options, file_system));
        } else if let Some(below) = at.strip_prefix(&point)
            && below.starts_with('/')
            && below != HARMLESS
        {
            return Err(format!(
                "`{at}` covers a part of `{shown}`, which a new one would show"
            ));
        }
    }
    let no_proc = || format!("`{shown}` is not a mounted proc file system");
    let (root, options, file_system) = found.ok_or_else(no_proc)?;
    let mut fields = file_system.split(' ');
    let (kind, own_options) = (fields.next(), fields.nth(1).unwrap_or_default());
    if kind != Some("proc") || root != "/" {
        return Err(no_proc());
    }
    let is_read_only = |options: &str| options.split(',').any(|one| one == "ro");
    let kept: Vec<&str> = own_options
        .split(',')
        .filter(|one| !matches!(*one, "rw" | "ro"))
        .collect();
    let text = |text: &[u8]| CString::new(text).map_err(|_| no_proc());
    Ok(ProcMount {
        place: text(place.as_os_str().as_bytes())?,
        read_only: is_read_only(options) || is_read_only(own_options),
        options: text(kept.join(",").as_bytes())?,
    })
}

/// A path as `mountinfo` writes it.
fn escaped(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for character in path.chars() {
        match character {
            ' ' | '\t' | '\n' | '\\' => {
                escaped.push_str(&format!("\\{:03o}", u32::from(character)));
            }
            other => escaped.push(other),
        }
    }
    escaped
}

impl ProcMount {
    /// Keeps what is mounted on this place from now on from reaching other
    /// mount namespaces; 0 or -1 with `errno`. Async-signal-safe.
    pub(super) fn set_apart(&self) -> c_int {
        mount(c"none", &self.place, c"none", libc::MS_SLAVE, c"")
    }

    /// Mounts what shows the caller's PID namespace; 0 or -1 with `errno`.
    /// Async-signal-safe.
    pub(super) fn make(&self) -> c_int {
        let mut flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
        if self.read_only {
            flags |= libc::MS_RDONLY;
        }
        mount(c"proc", &self.place, c"proc", flags, &self.options)
    }

    /// Takes back what [`make`](Self::make) did. Async-signal-safe.
    pub(super) fn unmake(&self) {
        // SAFETY: the string ends with a NUL.
        unsafe { libc::umount2(self.place.as_ptr(), libc::MNT_DETACH) };
    }
}

fn mount(source: &CStr, place: &CStr, kind: &CStr, flags: c_ulong, options: &CStr) -> c_int {
    let options = if options.is_empty() {
        ptr::null()
    } else {
        options.as_ptr().cast()
    };
    // SAFETY: all strings end with a NUL, and no options are a null pointer.
    unsafe {
        libc::mount(
            source.as_ptr(),
            place.as_ptr(),
            kind.as_ptr(),
            flags,
            options,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "\
22 27 0:21 / /proc rw,relatime shared:5 - proc proc rw
30 22 0:26 / /proc/sys/fs/binfmt_misc rw,relatime shared:9 - autofs systemd-1 rw,fd=29
31 27 0:30 / /process rw - tmpfs none rw";

    fn planned(mounts: &str, place: &str) -> Result<(bool, String), String> {
        let mount = over(mounts, Path::new(place))?;
        assert_eq!(mount.place.to_str().unwrap(), place);
        Ok((mount.read_only, mount.options.into_string().unwrap()))
    }

    #[test]
    fn a_new_proc_shows_no_more_than_the_one_below_it() {
        assert_eq!(planned(PLAIN, "/proc"), Ok((false, String::new())));
        let hiding = PLAIN.replace("proc proc rw", "proc proc rw,gid=7,hidepid=invisible");
        assert_eq!(
            planned(&hiding, "/proc"),
            Ok((false, "gid=7,hidepid=invisible".to_owned()))
        );
        let read_only = PLAIN.replace("/proc rw,relatime", "/proc ro,relatime");
        assert_eq!(planned(&read_only, "/proc"), Ok((true, String::new())));
        let masked = format!("{PLAIN}\n40 22 0:31 / /proc/kcore rw - tmpfs tmpfs rw");
        let refused = planned(&masked, "/proc").unwrap_err();
        assert!(refused.contains("`/proc/kcore`"), "{refused}");
    }

    #[test]
    fn only_a_whole_proc_is_covered() {
        for (mounts, place) in [
            (PLAIN, "/process"),
            (PLAIN, "/elsewhere"),
            ("", "/proc"),
            ("22 27 0:21 /sys /proc rw - proc proc rw", "/proc"),
            // Something else lies on top.
            (
                "22 27 0:21 / /proc rw - proc proc rw\n23 22 0:9 / /proc rw - tmpfs x rw",
                "/proc",
            ),
        ] {
            let refused = planned(mounts, place).unwrap_err();
            assert!(refused.contains("not a mounted proc"), "{refused}");
        }
    }

    #[test]
    fn a_place_is_found_by_the_name_that_mountinfo_has_for_it() {
        let mounts = r"22 27 0:21 / /a\040b/\134c/proc rw - proc proc rw";
        assert!(planned(mounts, r"/a b/\c/proc").is_ok());
    }
}
