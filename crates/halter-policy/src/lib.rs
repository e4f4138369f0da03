//! What a session's tools may run, read, write and reach.
//!
//! | module | owns |
//! |---|---|
//! | [`settings`] | the policy as data, and what a session adds to it |
//! | [`policy`] | [`ToolPolicy`], the object tools ask, and its standard form |
//! | [`door`] | the file door: checks and opens in one step, returns handles |
//! | [`permission`] | what runs without a question, what a person decides, what never runs |
//! | [`network`] | which hosts may be reached, and at which addresses |
//! | [`shell`] | the shell judge: reads a command line before anything runs |
//! | [`environment`] | which variables of an environment commands see |
//! | [`search`] | how directories are walked for searches |
//! | [`error`] | why something was refused, and what to change |
//! | [`limits`] | the bounds of all of the above |
//!
//! This crate decides; it never executes a program, asks a person, reads the
//! environment or prints. An error on the way to a decision is a denial.

pub mod door;
pub mod environment;
pub mod error;
mod judge;
pub mod limits;
pub mod network;
pub mod permission;
pub mod policy;
mod sandbox;
pub mod search;
pub mod settings;
pub mod shell;
mod shell_files;

pub use door::{
    BUILTIN_SENSITIVE_PATTERNS, BUILTIN_WRITE_PROTECTED_PATTERNS, DeleteTicket, DirHandle,
    DirectoryEntry, FileDoor, FileKind, FileMetadata, FilePiece, FilePlace, FileReader, FileRules,
    Listing, PlacedEntry, PlacedFiles, PlacedWalk, PlacedWalkPlan, Precondition, ReadHandle,
    RenameOver, RenameTicket, SessionFiles, SetAside, WalkedEntry, WriteTicket, Written,
    directory_mark,
};
pub use error::{Access, PolicyError, SubagentLimitKind, is_out_of_descriptors};
pub use network::{Destination, Host, HostRefusal, NetworkPolicy};
pub use permission::{PermissionTree, Permissions, RuleStore, RuleStoreError, SourcedRule};
pub use policy::{PolicyBinder, StandardPolicies, StandardPolicy, ToolPolicy};
pub use sandbox::{
    ElsewhereBounds, SandboxBounds, SandboxMode, is_searched_by_sandbox, protected_in_repository,
    searched_entries,
};
pub use settings::{
    FixedLists, NetworkSwitch, PolicySettings, ProgramList, SessionScope, SoftRoots,
};
pub use shell::ShellJudge;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
