//! Where the commands of a session run, as the configuration says.

use crate::harness::Loaded;
use halter::Halter;
use halter_config::ExecBackendChoice;
use serde_json::{Value, json};

/// The place, and what it says of itself.
pub struct ExecFindings {
    pub place: String,
    /// Why they cannot.
    pub problem: Option<String>,
    /// What the place does not do that this program would.
    pub lacks: Vec<String>,
}

impl ExecFindings {
    /// Asks the place.
    pub async fn of(loaded: &Loaded, harness: &Halter) -> Self {
        let checked = harness.check_exec().await;
        Self {
            place: elsewhere(loaded).unwrap_or_else(|| "this program".to_owned()),
            problem: checked.as_ref().err().map(|error| format!("{error:#}")),
            lacks: checked.unwrap_or_default(),
        }
    }

    /// A fact per line.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{:<12} {}", "commands", self.place)];
        let problem = self.problem.iter();
        lines.extend(problem.map(|it| format!("  cannot run: {it}")));
        lines.extend(self.lacks.iter().map(|it| format!("  {it}")));
        lines
    }

    pub fn json(&self) -> Value {
        json!({
            "place": self.place,
            "problem": self.problem,
            "lacks": self.lacks,
        })
    }
}

/// The place, if it is not this program: what holds commands there it says
/// itself, and the sandbox of this machine holds none of them.
pub fn elsewhere(loaded: &Loaded) -> Option<String> {
    let exec = &loaded.config.config.exec;
    match exec.backend {
        ExecBackendChoice::TerminalRuntime => {
            let socket = exec.socket.as_ref().map(|path| path.display().to_string());
            let target = exec.url.clone().or(socket);
            let target = target.unwrap_or_else(|| "its usual socket".to_owned());
            let container = exec.container.as_ref();
            let container = container.map(|image| format!(", in containers of {image}"));
            Some(format!(
                "terminal-runtime at {target}{}",
                container.unwrap_or_default()
            ))
        }
        _ => None,
    }
}
