//! The configuration of Halter: the `halter.toml` schema, its layers, the origin of each value,
//! and the lookup of credentials.
//!
//! This crate owns what a configuration may say and what it means: it reads files and a captured
//! [`Environment`], refuses what it does not understand with the place and the remedy, and keeps
//! an untrusted project file from doing more than narrowing.
//!
//! It never decides what a tool may do (that is the policy's), never reads `.env` files, never
//! prints, and shows no secret. Only [`load_path`] and [`Environment::capture`] read the process
//! environment; all else takes it as a value.

pub mod limits;

mod assemble;
mod available;
mod check;
mod choice;
mod credentials;
mod describe;
mod document;
mod effect;
mod environment;
mod error;
mod keys;
mod load;
mod lock;
mod mcp;
mod mcp_file;
mod narrow;
mod origin;
mod permissions;
mod project;
mod save;
mod schema;
mod services;
mod settings;
mod trust;
mod variables;
mod warning;

pub use available::{KnownTools, check_tool_names};
pub use choice::ModelChoice;
pub use credentials::{
    ProviderRuntimeConfig, REDACTED, SecretString, resolve_credentials,
    resolve_provider_runtime_config,
};
pub use describe::{
    config_fingerprint, export_json_schema, generate_starter_config, schema_as_json_value,
};
pub use effect::{TrustEffect, effect_of};
pub use environment::{Environment, expand_path};
pub use error::{ConfigError, Location};
pub use keys::dotted_key;
pub use load::{LayeredConfigPaths, LoadedConfig, LoadedProject, load_layered, load_path};
pub use lock::lock_within;
pub use mcp::expand_variables;
pub use mcp_file::{MCP_FILE_NAME, McpFile, parse_mcp_entry, parse_mcp_file, unknown_mcp_members};
pub use origin::Origin;
pub use project::{PROJECT_FILE_NAME, ProjectFile, find_project_config, find_project_file};
pub use save::{SavedRule, remove_mcp_server, save_allow_rule, save_mcp_server};
pub use schema::*;
pub use services::{
    KNOWN_SERVICES, KnownService, api_key_variables, default_base_url, known_service,
    local_services,
};
pub use trust::TrustStore;
pub use variables::{MODEL_VARIABLE, RESERVED_VARIABLES, override_variables};
pub use warning::ConfigWarning;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
