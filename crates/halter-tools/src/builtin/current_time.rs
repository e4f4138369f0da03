//! `current_time`: what the clock says.

use super::support::blocking;
use crate::context::ToolContext;
use crate::session::ToolSessionStore;
use crate::typed::TypedTool;
use anyhow::anyhow;
use async_trait::async_trait;
use halter_protocol::{Timestamp, ToolCapabilities, ToolConcurrency, ToolResult};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::path::Path;

/// Tell the date and time, and the seconds since the session began.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CurrentTimeInput {
    /// A time zone such as `Europe/Berlin`; the session's own if left out.
    #[schemars(length(min = 1, max = 100))]
    zone: Option<String>,
}

pub(crate) struct CurrentTimeTool;

#[async_trait]
impl TypedTool for CurrentTimeTool {
    type Input = CurrentTimeInput;
    const NAME: &'static str = "current_time";
    const SUMMARY: Option<&'static str> = Some("date, time and zone");
    const RARE: bool = true;

    fn concurrency(&self) -> ToolConcurrency {
        ToolConcurrency::ReadOnly
    }

    fn capabilities(&self) -> ToolCapabilities {
        super::support::LOOKS
    }

    async fn run(
        &self,
        context: ToolContext,
        input: CurrentTimeInput,
    ) -> anyhow::Result<ToolResult> {
        blocking(move || {
            let (name, zone) = match input.zone {
                Some(name) => {
                    let zone = named_zone(&name)?;
                    (name, zone)
                }
                None => own_zone(&context.tool_sessions),
            };
            let elapsed = context.tool_sessions.age();
            let mut value = described(Timestamp::now(), &name, zone);
            if let Some(object) = value.as_object_mut() {
                let seconds = elapsed.as_millis() as f64 / 1000.0;
                object.insert("session_seconds".to_owned(), json!(seconds));
            }
            Ok(ToolResult::json(value))
        })
        .await
    }
}

fn described(now: Timestamp, name: &str, zone: TimeZone) -> Value {
    let local = now.to_zoned(zone);
    json!({
        "zone": name,
        "local": local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        "weekday": local.strftime("%A").to_string(),
        "utc": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "unix_seconds": now.as_second(),
    })
}

/// Where the system keeps its time zones. Fixed, so that the environment of
/// the process has no say.
const ZONES: &str = "/usr/share/zoneinfo";

fn named_zone(name: &str) -> anyhow::Result<TimeZone> {
    if matches!(name, "UTC" | "Etc/UTC" | "GMT" | "Z") {
        return Ok(TimeZone::UTC);
    }
    let zones = TimeZoneDatabase::from_dir(Path::new(ZONES))
        .map_err(|_| anyhow!("this system has no time zones in {ZONES}; use `UTC`"))?;
    zones.get(name).map_err(|_| {
        anyhow!("there is no time zone '{name}'; name one such as `Europe/Berlin`, or `UTC`")
    })
}

/// The zone that commands of the session have: that of their environment, else
/// that of the system, else UTC.
fn own_zone(session: &ToolSessionStore) -> (String, TimeZone) {
    let environment = session.base_environment().get(OsStr::new("TZ"));
    let from_environment = environment.and_then(|zone| zone.to_str());
    let system = std::fs::read_link("/etc/localtime").ok();
    let from_system = system.as_deref().and_then(zone_of_link);
    let names = [from_environment, from_system].into_iter().flatten();
    names
        .map(|name| name.trim_start_matches(':'))
        .find_map(|name| Some((name.to_owned(), named_zone(name).ok()?)))
        .unwrap_or_else(|| ("UTC".to_owned(), TimeZone::UTC))
}

/// The name in `/usr/share/zoneinfo/Europe/Berlin`.
fn zone_of_link(link: &Path) -> Option<&str> {
    let text = link.to_str()?;
    let (_, name) = text.split_once("/zoneinfo/")?;
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_told_in_a_zone() {
        let moment: Timestamp = "2026-07-01T12:30:00Z".parse().unwrap();
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(
            described(moment, "Europe/Berlin", zone),
            json!({
                "zone": "Europe/Berlin",
                "local": "2026-07-01T14:30:00+02:00",
                "weekday": "Wednesday",
                "utc": "2026-07-01T12:30:00Z",
                "unix_seconds": 1_782_909_000,
            })
        );
    }

    #[test]
    fn the_systems_zone_is_named_by_its_link() {
        let link = Path::new("/usr/share/zoneinfo/Europe/Berlin");
        assert_eq!(zone_of_link(link), Some("Europe/Berlin"));
        assert_eq!(zone_of_link(Path::new("../elsewhere")), None);
    }
}
