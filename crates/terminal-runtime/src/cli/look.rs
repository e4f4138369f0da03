//! Subcommands that only look.

use serde::Serialize;
use terminal_runtime::discovery::discover;
use terminal_runtime::protocol::{DescribedTransport, ExecStatus, SCHEMA};
use terminal_runtime::settings::Settings;

use super::failure::Failure;
use super::{print, target};

/// Lines with their columns below each other.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths);
        let line: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        text.push_str(line.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// A command in one line, without anything that moves the cursor.
fn shown(command: &str) -> String {
    let line: String = command
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    line.trim().to_owned()
}

fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|&cell| cell.to_owned()).collect()
}

pub async fn commands(settings: &Settings) -> Result<u8, Failure> {
    let listing = target::client(settings)?.execs().await?;
    let mut rows = vec![row(&["EXEC", "SESSION", "STATE", "STARTED", "COMMAND"])];
    for exec in listing.execs {
        let state = match exec.state {
            ExecStatus::Queued => "queued",
            ExecStatus::Running => "running",
            _ => "ended",
        };
        let command = shown(&exec.command);
        rows.push(row(&[
            &exec.exec_id,
            &exec.session_id,
            state,
            &exec.started_at,
            &command,
        ]));
    }
    print(&table(&rows));
    Ok(0)
}

pub async fn sessions(settings: &Settings) -> Result<u8, Failure> {
    let listing = target::client(settings)?.sessions().await?;
    let mut rows = vec![row(&[
        "SESSION",
        "STATE",
        "COMMANDS",
        "LAST USED",
        "NAME",
        "DIRECTORY",
    ])];
    for session in listing.sessions {
        let count = session.command_count.to_string();
        let name = shown(session.name.as_deref().unwrap_or("-"));
        let directory = shown(&session.working_dir);
        let cells = [
            &session.session_id,
            &session.state,
            &count,
            &session.last_activity,
            &name,
            &directory,
        ];
        rows.push(cells.map(String::clone).to_vec());
    }
    print(&table(&rows));
    Ok(0)
}

pub fn runtimes(settings: &Settings) -> Result<u8, Failure> {
    let found = match settings.discovery_place() {
        Some(directory) => discover(&directory)?,
        None => {
            return Err(Failure::usage(
                "there is no directory of runtimes: --discovery-dir is `none`",
            ));
        }
    };
    let mut rows = vec![row(&["PID", "VERSION", "STARTED", "REACHED BY"])];
    for runtime in found {
        let places: Vec<String> = runtime.transports.iter().filter_map(place).collect();
        let pid = runtime.pid.to_string();
        rows.push(row(&[
            &pid,
            &runtime.version,
            &runtime.started_at,
            &places.join(" "),
        ]));
    }
    print(&table(&rows));
    Ok(0)
}

fn place(transport: &DescribedTransport) -> Option<String> {
    match transport {
        DescribedTransport::Unix { path } => Some(path.clone()),
        DescribedTransport::Http { address } => Some(format!("http://{address}")),
        _ => None,
    }
}

pub async fn describe(settings: &Settings) -> Result<u8, Failure> {
    print_json(&target::client(settings)?.describe().await?)
}

pub async fn ping(settings: &Settings) -> Result<u8, Failure> {
    let client = target::client(settings)?;
    let ping = client.ping().await?;
    print(&format!(
        "{}: version {}, up for {} s\n",
        client.target(),
        ping.version,
        ping.uptime_s
    ));
    Ok(0)
}

fn print_json<Value: Serialize>(value: &Value) -> Result<u8, Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::new(format!("the answer cannot be shown: {error}")))?;
    print(&format!("{text}\n"));
    Ok(0)
}

pub fn schema() -> Result<u8, Failure> {
    print(SCHEMA);
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other() {
        let rows = [row(&["A", "BB", "C"]), row(&["long", "x", ""])];
        assert_eq!(table(&rows), "A     BB  C\nlong  x\n");
    }
}
