//! What the runtime keeps, and for how long, by a clock of the test's.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use terminal_runtime::limits::{
    EXEC_RETENTION, MAX_KEPT_EXECS, PRESSURE_EVICTIONS, PRESSURE_MEMORY_AGE,
};
use terminal_runtime::protocol::{Call, RequestId};
use terminal_runtime::service::{CallAnswer, Client, Service, core_settings};
use terminal_runtime::session::{Clock, Moment};
use terminal_runtime::settings::Settings;

use crate::runtime::PROGRAM;

#[derive(Debug)]
struct ManualClock {
    start: Instant,
    elapsed: Mutex<Duration>,
}

impl ManualClock {
    fn advance(&self, span: Duration) {
        *self.elapsed.lock().unwrap() += span;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        let elapsed = *self.elapsed.lock().unwrap();
        Moment {
            monotonic: self.start + elapsed,
            wall: SystemTime::UNIX_EPOCH + elapsed,
        }
    }
}

/// A runtime within this very process, without a transport.
struct Bare {
    service: Service,
    clock: Arc<ManualClock>,
    _directory: tempfile::TempDir,
}

impl Bare {
    async fn start(adjust: impl FnOnce(&mut Settings)) -> Self {
        // As the program does when it starts.
        halter_exec::host::system::raise_descriptor_limit();
        let directory = tempfile::tempdir().unwrap();
        let mut settings = Settings::from_flags::<String>([]).unwrap();
        settings.session_max_commands = None;
        adjust(&mut settings);
        let clock = Arc::new(ManualClock {
            start: Instant::now(),
            elapsed: Mutex::default(),
        });
        let environment = [("PATH", std::env::var("PATH").unwrap())]
            .into_iter()
            .collect();
        let core = core_settings(
            &settings,
            environment,
            directory.path().to_owned(),
            PROGRAM.into(),
        );
        let service = Service::start(settings, core, clock.clone()).await.unwrap();
        Self {
            service,
            clock,
            _directory: directory,
        }
    }

    async fn call(&self, method: &str, params: Value) -> Value {
        let id = RequestId::unknown();
        let call = Call::parse(method, &params.to_string()).unwrap();
        let line = match self.service.call(&id, call, &Client::default()).await {
            CallAnswer::Line(line) => line,
            CallAnswer::Result(order) => self.service.result_line(&id, &order),
            other => panic!("{other:?}"),
        };
        serde_json::from_slice(&line).unwrap()
    }

    async fn kept(&self) -> usize {
        let listed = self.call("exec.list", json!({})).await;
        listed["data"]["execs"].as_array().unwrap().len()
    }

    async fn end(self) {
        self.service.shut_down().await;
        self.service.end().await;
    }
}

#[tokio::test]
async fn commands_that_ended_are_kept_for_a_while_and_so_many() {
    let bare = Bare::start(|_| ()).await;
    let session = bare.call("session.create", json!({})).await["data"]["session_id"].clone();
    for number in 0..=MAX_KEPT_EXECS {
        bare.clock.advance(Duration::from_millis(1));
        let params =
            json!({"session_id": session, "argv": ["true"], "exec_id": format!("n-{number}")});
        assert_eq!(bare.call("exec.run", params).await["data"]["exit_code"], 0);
    }
    assert_eq!(bare.kept().await, MAX_KEPT_EXECS + 1);
    bare.service.sweep().await;
    assert_eq!(bare.kept().await, MAX_KEPT_EXECS);
    // The oldest went.
    let first = bare.call("exec.read", json!({"exec_id": "n-0"})).await;
    assert_eq!(first["error"]["code"], "EXEC_NOT_FOUND");
    bare.clock.advance(EXEC_RETENTION - Duration::from_secs(1));
    bare.service.sweep().await;
    assert_eq!(bare.kept().await, MAX_KEPT_EXECS);
    bare.clock.advance(Duration::from_secs(1));
    bare.service.sweep().await;
    assert_eq!(bare.kept().await, 0);
    // What nobody named was never kept.
    bare.call("exec.run", json!({"session_id": session, "argv": ["true"]}))
        .await;
    assert_eq!(bare.kept().await, 0);
    bare.end().await;
}

#[tokio::test]
async fn sessions_are_shed_some_at_a_time_when_memory_is_short() {
    let used = Bare::start(|_| ()).await;
    let now = used.call("system.stats", json!({})).await["data"]["memory_rss_bytes"]
        .as_u64()
        .unwrap();
    used.end().await;
    // Far more than other tests of this process come and go with.
    let limit = now + 192 * 1024 * 1024;
    let bare = Bare::start(|settings| settings.memory_pressure_bytes = Some(limit)).await;
    for _ in 0..PRESSURE_EVICTIONS + 2 {
        assert_eq!(bare.call("session.create", json!({})).await["ok"], true);
    }
    let ballast = vec![1_u8; 320 * 1024 * 1024];
    std::hint::black_box(&ballast);
    // Measured less than a second ago: still thought to be fine.
    bare.clock
        .advance(PRESSURE_MEMORY_AGE - Duration::from_millis(1));
    assert_eq!(bare.call("session.create", json!({})).await["ok"], true);
    bare.service.sweep().await;
    let left = bare.call("session.list", json!({})).await["data"]["sessions"]
        .as_array()
        .unwrap()
        .len();
    assert_eq!(left, 3);
    bare.service.sweep().await;
    bare.service.sweep().await;
    let refused = bare.call("session.create", json!({})).await;
    assert_eq!(refused["error"]["code"], "RESOURCE_PRESSURE", "{refused}");
    drop(ballast);
    bare.clock.advance(PRESSURE_MEMORY_AGE);
    assert_eq!(bare.call("session.create", json!({})).await["ok"], true);
    bare.end().await;
}

#[tokio::test]
async fn sessions_expire_by_the_clock_and_not_while_they_are_used() {
    let bare = Bare::start(|settings| {
        settings.max_idle = Some(Duration::from_secs(100));
        settings.session_ttl = Some(Duration::from_secs(1000));
    })
    .await;
    let session = bare.call("session.create", json!({})).await["data"]["session_id"].clone();
    for _ in 0..11 {
        bare.clock.advance(Duration::from_secs(90));
        let run = json!({"session_id": session, "argv": ["true"]});
        assert_eq!(bare.call("exec.run", run).await["ok"], true);
        bare.service.sweep().await;
    }
    // It was used all the time, and is old now.
    bare.clock.advance(Duration::from_secs(10));
    bare.service.sweep().await;
    let info = bare
        .call("session.info", json!({"session_id": session}))
        .await;
    assert_eq!(info["error"]["code"], "SESSION_NOT_FOUND");
    bare.end().await;
}
