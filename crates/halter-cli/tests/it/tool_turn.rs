//! One call of a tool by a model, through the whole binary.

use crate::place::{Place, Ran};
use halter_mock::{MockService, ScenarioLibrary, ServeOptions, serve};
use serde_json::Value;
use std::path::PathBuf;
use tokio::runtime::{Builder, Runtime};

/// What became of the call.
pub struct ToolTurn {
    pub ran: Ran,
    /// The result of the call, as the model got it in the next request.
    pub told: String,
}

/// Has a scripted model call the tool, in the working directory of `place`,
/// with these settings.
#[track_caller]
pub fn tool_turn(place: &Place, settings: &str, tool: &str, input: &Value) -> ToolTurn {
    let script = format!(
        "[scenarios.turn]\ndescription = \"Calls a tool.\"\nsteps = [\n\
         {{ parts = [{{ type = \"call\", tool = \"{tool}\", raw = '''{input}''' }}] }},\n\
         {{ parts = [{{ type = \"text\", text = \"Done.\" }}] }},\n]\n"
    );
    let (runtime, service, file) = played(place, &script, settings);
    let ran = place.halter(["--config", file.to_str().unwrap(), "run", "--text", "go on"]);
    let requests = service.requests();
    let last = requests.last().expect("no request");
    let told = last.json()["messages"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .to_string();
    runtime.block_on(service.stop());
    ToolTurn { ran, told }
}

/// A service that plays the scenario `turn` of a script, and the file of a
/// configuration with these settings that reaches it.
pub fn played(place: &Place, script: &str, settings: &str) -> (Runtime, MockService, PathBuf) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let mut scenarios = ScenarioLibrary::default();
    scenarios.add_toml(script).unwrap();
    let options = ServeOptions {
        scenarios,
        default_scenario: Some("turn".to_owned()),
        ..ServeOptions::default()
    };
    let service = runtime.block_on(serve(options)).unwrap();
    let config = format!(
        "version = 1\n[models.default]\nprovider = \"anthropic\"\nmodel = \"claude-sonnet-4-5\"\n\
         [providers.anthropic]\nbase_url = \"{}/anthropic\"\napi_key = \"any\"\n\
         [tools]\ndeferred = \"off\"\n{settings}",
        service.base_url()
    );
    let file = place.root().join("turn.toml");
    std::fs::write(&file, config).unwrap();
    (runtime, service, file)
}
