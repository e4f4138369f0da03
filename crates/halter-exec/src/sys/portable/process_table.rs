//! What `ps` says about processes.

use std::io;
use std::process::{Command, Stdio};

use crate::limits::MAX_COMMAND_LINE_BYTES;
use crate::sys::stat::{EnvironmentLook, Stat};

/// The process with this number, if there is one.
pub(crate) fn stat(pid: i32) -> Option<Stat> {
    look(&["-p", &pid.to_string()]).ok()?.pop()
}

/// Every process that can be seen.
pub(crate) fn all() -> io::Result<Vec<Stat>> {
    look(&["-A"])
}

/// Examines every process.
pub(crate) fn sweep(examine: impl FnMut(Stat)) -> io::Result<()> {
    all()?.into_iter().for_each(examine);
    Ok(())
}

fn look(which: &[&str]) -> io::Result<Vec<Stat>> {
    let columns = ["pid", "ppid", "pgid", "stat", "lstart", "command"];
    let (own, text) = ask(which, &columns)?;
    Ok(text
        .lines()
        .filter_map(parse)
        .filter(|stat| stat.pid != own)
        .collect())
}

/// What `ps` says, and the number it had itself.
fn ask(which: &[&str], columns: &[&str]) -> io::Result<(i32, String)> {
    let ps = Command::new("/bin/ps")
        .args(which)
        .args(
            columns
                .iter()
                .flat_map(|column| ["-o".to_owned(), format!("{column}=")]),
        )
        .env_clear()
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let own = i32::try_from(ps.id()).unwrap_or(0);
    let output = ps.wait_with_output()?;
    Ok((own, String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// The resident memory of this program.
pub(crate) fn resident_bytes() -> Option<u64> {
    let (_, text) = ask(&["-p", &std::process::id().to_string()], &["rss"]).ok()?;
    let kib: u64 = text.trim().parse().ok()?;
    Some(kib * 1024)
}

fn parse(line: &str) -> Option<Stat> {
    let mut rest = line;
    let mut next = || {
        let (field, after) = rest
            .trim_start()
            .split_once(char::is_whitespace)
            .unwrap_or((rest.trim_start(), ""));
        rest = after;
        (!field.is_empty()).then_some(field)
    };
    let pid = next()?.parse().ok()?;
    let parent = next()?.parse().ok()?;
    let group = next()?.parse().ok()?;
    let state = next()?.chars().next()?;
    let _weekday = next()?;
    let start_time = start_time(next()?, next()?, next()?, next()?)?;
    Some(Stat {
        pid,
        name: rest.trim_start().to_owned(),
        state,
        parent,
        group,
        // Not every `ps` can tell; a group that a session began with is what
        // is left of it here.
        session: group,
        start_time,
    })
}

/// A number that grows with time, to the second.
fn start_time(month: &str, day: &str, clock: &str, year: &str) -> Option<u64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let month = MONTHS.find(month)? as u64 / 3;
    let days = (year.parse::<u64>().ok()? * 12 + month) * 31 + day.parse::<u64>().ok()?;
    clock.split(':').try_fold(days, |time, part| {
        Some(time * 60 + part.parse::<u64>().ok()?)
    })
}

/// The command line, or the bracketed name of a process that has none.
pub(crate) fn command_line(stat: &Stat) -> String {
    let mut line = stat.name.clone();
    line.truncate(line.floor_char_boundary(MAX_COMMAND_LINE_BYTES));
    line
}

/// Another process's environment is not shown here.
pub(crate) fn environment_look(_: i32, _: &[u8]) -> EnvironmentLook {
    EnvironmentLook::Lacks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_ps_is_read() {
        let line = "   42     7    42 Ss   Sun Nov  1 09:08:07 2026 /bin/sh -c  sleep 3 ";
        let stat = parse(line).unwrap();
        assert_eq!((stat.pid, stat.parent, stat.group), (42, 7, 42));
        assert_eq!(
            (stat.state, stat.name.as_str()),
            ('S', "/bin/sh -c  sleep 3 ")
        );
        assert_eq!(parse("42 7"), None);
    }

    #[test]
    fn later_is_larger() {
        let times = [
            start_time("Dec", "31", "23:59:59", "2026"),
            start_time("Jan", "1", "00:00:00", "2027"),
            start_time("Jan", "1", "00:00:01", "2027"),
            start_time("Jan", "31", "23:00:00", "2027"),
            start_time("Feb", "1", "00:00:00", "2027"),
        ];
        assert!(times.is_sorted() && times[0].is_some());
    }
}
