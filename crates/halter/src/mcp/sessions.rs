//! Servers whose tables name no `cwd`: they run where the session works that
//! calls them.

use super::SandboxSource;
use async_trait::async_trait;
use halter_mcp::{AnyDirectory, PlacedProgram, ProgramSettings, ServerName};
use std::any::Any;
use std::path::Path;

/// What a server is started from in directories of sessions.
#[derive(Debug)]
pub(super) struct SessionDirectories {
    pub name: ServerName,
    /// The program without a sandbox.
    pub program: ProgramSettings,
    /// What its sandbox is made from, if it runs in one.
    pub sandbox: Option<SandboxSource>,
}

#[async_trait]
impl AnyDirectory for SessionDirectories {
    async fn program_in(&self, directory: &Path) -> Result<PlacedProgram, String> {
        let mut program = self.program.clone();
        program.directory = directory.to_path_buf();
        let mut kept = None;
        if let Some(sandbox) = &self.sandbox {
            let mut sandbox = sandbox.clone();
            sandbox.directory = directory.to_path_buf();
            let proxy = sandbox.contain(&self.name, &mut program).await;
            let proxy = proxy.map_err(|error| error.to_string())?;
            kept = proxy.map(|proxy| Box::new(proxy) as Box<dyn Any + Send + Sync>);
        }
        Ok(PlacedProgram { program, kept })
    }
}
