//! Skills, agents, commands, output styles and plugins on disk, compiled into one
//! immutable [`ResourceSnapshot`](halter_protocol::ResourceSnapshot).
//!
//! [`ResourceCompiler`] looks through the configured roots and returns the
//! snapshot with every problem as a [`ResourceWarning`]: one bad file
//! costs that file and never the rest. What a snapshot is called follows from
//! its content alone, so equal content has an equal revision on every machine.
//!
//! Instruction files belong to a session and its directory:
//! [`load_instructions`](instructions::load_instructions) reads them through a
//! door that stands for the session's rights.
//!
//! This crate never runs what it loads, never follows a link out of a root, and
//! reads no file it has not been pointed to.
//!
//! | module | holds |
//! |---|---|
//! | [`compiler`] | roots and loaded resources to a snapshot |
//! | [`places`] | where resources are looked for |
//! | [`skill`] | a skill, and the loader of a root of skills |
//! | [`agent`], [`command`], [`output_style`] | what one `.md` file defines |
//! | [`plugin`] | a plugin with its parts, and the loader of a root of plugins |
//! | [`render`] | the text of a skill or command as it is used |
//! | [`installed`] | plugins that a user has installed |
//! | [`trust`] | what content is called, for a user to trust it |
//! | [`instructions`] | instruction files such as `AGENTS.md`, and what they import |
//! | [`frontmatter`] | splitting a file into frontmatter and body |
//! | [`warning`] | every problem that is not fatal |
//! | [`limits`] | the bounds of all of it |

pub mod agent;
pub mod command;
mod command_line;
pub mod compiler;
mod content;
mod definition_walk;
pub mod error;
mod files;
pub mod frontmatter;
mod header;
mod imports;
pub mod installed;
pub mod instructions;
pub mod limits;
mod manifest;
mod name;
pub mod output_style;
pub mod places;
pub mod plugin;
mod plugin_parts;
pub mod render;
pub mod skill;
mod skill_walk;
pub mod trust;
pub mod warning;

pub use agent::{LoadedAgent, is_narrowed};
pub use command::LoadedCommand;
pub use compiler::{CompiledResources, ResourceCompiler};
pub use error::ResourceError;
pub use installed::{InstalledPlugin, InstalledPlugins, PluginSource, PluginSwitch};
pub use output_style::LoadedOutputStyle;
pub use places::{ResourcePlaces, ResourceRoot, UsualPlaces, project_holding, project_top};
pub use plugin::{
    LoadedHooksFile, LoadedLspServer, LoadedMcpServer, LoadedPlugin, LoadedPlugins, PluginLoader,
    PluginPart,
};
pub use skill::{LoadedSkill, LoadedSkills, SkillLoader};
pub use trust::{ContentTrust, TrustedContent, hooks_in};
pub use warning::ResourceWarning;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
