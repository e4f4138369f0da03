//! `halter mock`: a scripted model service on loopback, to try things without
//! a key, a network or a bill.

use crate::args::{JsonArg, MockCommand, MockServeArgs};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::signals::Signals;
use halter::HalterError;
use halter_mock::{MockError, ScenarioLibrary, ServeOptions};
use serde_json::json;

/// Serves, or lists what can be served.
pub async fn mock(context: &mut Context, command: MockCommand) -> Result<Exit, Failure> {
    match command {
        MockCommand::Serve(arguments) => serve(context, arguments).await,
        MockCommand::Scenarios(json) => scenarios(context, json),
    }
}

async fn serve(context: &mut Context, arguments: MockServeArgs) -> Result<Exit, Failure> {
    context.errors_in_data = arguments.json.json;
    let mut options = ServeOptions::default();
    for script in &arguments.scenarios {
        options.scenarios.add_file(script).map_err(problem)?;
    }
    options.address = arguments.address;
    options.default_scenario = arguments.default;
    options.strict = !arguments.lenient;
    // Before the address is printed: who reads it may send a signal at once.
    let mut signals = Signals::open()?;
    let service = halter_mock::serve(options).await.map_err(problem)?;
    let base_url = service.base_url();
    match arguments.json.json {
        true => context.data.json(&json!({ "base_url": base_url }))?,
        false => context.data.line(&base_url)?,
    }
    context
        .messages
        .note("mock:NAME in a prompt chooses a scenario; Ctrl-C stops the service");
    signals.next().await;
    tokio::select! {
        () = service.stop() => {}
        // Whoever asks again does not want to wait for answers under way.
        _ = signals.next() => {}
    }
    Ok(Exit::Success)
}

fn scenarios(context: &mut Context, arguments: JsonArg) -> Result<Exit, Failure> {
    context.errors_in_data = arguments.json;
    let library = ScenarioLibrary::built_in().map_err(problem)?;
    if arguments.json {
        let about = |(name, scenario): (&str, &halter_mock::Scenario)| json!({ "name": name, "description": scenario.description });
        let all: Vec<_> = library.iter().map(about).collect();
        context.data.json(&all)?;
        return Ok(Exit::Success);
    }
    let width = library.iter().map(|(name, _)| name.len()).max();
    let width = width.unwrap_or(0);
    for (name, scenario) in library.iter() {
        let line = format!("{name:<width$}  {}", scenario.description);
        context.data.line(&line)?;
    }
    Ok(Exit::Success)
}

fn problem(error: MockError) -> Failure {
    let told = HalterError::new(error.code(), error.to_string());
    match error {
        // The address may be free a moment later; the rest is how we were called.
        MockError::Bind { .. } => told.into(),
        _ => Failure::Error(told, Exit::Usage),
    }
}
