//! Skills and plugins on disk, compiled into one immutable
//! [`ResourceSnapshot`](halter_protocol::ResourceSnapshot).
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
//! reads no file it has not been pointed to. Plugins are found, checked and
//! reported; their parts are not loaded.
//!
//! | module | holds |
//! |---|---|
//! | [`compiler`] | roots and loaded resources to a snapshot |
//! | [`skill`] | a skill, and the loader of a root of skills |
//! | [`plugin`] | a plugin's manifest, and the loader of a root of plugins |
//! | [`instructions`] | instruction files such as `AGENTS.md`, and what they import |
//! | [`frontmatter`] | splitting a file into frontmatter and body |
//! | [`warning`] | every problem that is not fatal |
//! | [`limits`] | the bounds of all of it |

pub mod compiler;
mod content;
pub mod error;
mod files;
pub mod frontmatter;
mod imports;
pub mod instructions;
pub mod limits;
mod manifest;
pub mod plugin;
pub mod skill;
mod skill_walk;
pub mod warning;

pub use compiler::{CompiledResources, ResourceCompiler};
pub use error::ResourceError;
pub use plugin::{LoadedPlugin, LoadedPlugins, PluginLoader, PluginPart};
pub use skill::{LoadedSkill, LoadedSkills, SkillLoader};
pub use warning::ResourceWarning;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
