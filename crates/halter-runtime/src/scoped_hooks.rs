//! Hooks in the frontmatter of skills and agent files: they hold while the
//! skill is in use or the agent works, and for the calls of subagents below.

use crate::subagents::AgentTypes;
use halter_hooks::file::{HookOrigin, ParsedHooks, parse_value};
use halter_hooks::{HookEventName, HookWarning, Hooks};
use halter_protocol::encoding::escape_path;
use halter_protocol::{AgentDef, ResourceOrigin, ResourceSnapshot, SessionBlueprint, SkillDef};
use halter_resources::project_holding;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Whose frontmatter hooks are written in. Names are full ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HookScope {
    Skill(String),
    Agent(String),
}

/// What a scope's hooks are for in the session that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// The skill is used, or the agent works, in this session.
    Own,
    /// That is a session above: what guards its calls guards those below.
    Inherited,
}

/// The hooks of a session: those of the harness, and those of what is in use.
#[derive(Debug, Default)]
pub(crate) struct SessionScopes {
    parsed: BTreeMap<HookScope, Hooks>,
    /// Skills whose text is in every prompt, and the agent that works here.
    always: Vec<HookScope>,
    inherited: Vec<HookScope>,
    is_subagent: bool,
    /// The last answer, with what it was for.
    merged: Option<(Vec<HookScope>, Arc<Hooks>)>,
}

impl SessionScopes {
    pub fn new(resources: &ResourceSnapshot, blueprint: &SessionBlueprint) -> Self {
        let mut scopes = Self {
            is_subagent: blueprint.subagent.is_some(),
            ..Self::default()
        };
        for skill in resources.skills.values() {
            let scope = HookScope::Skill(skill.name.to_string());
            if scopes.add(&scope, hooks_of_skill(skill, resources)) && skill.always {
                scopes.always.push(scope);
            }
        }
        for agent in resources.agents.values() {
            scopes.add(
                &HookScope::Agent(agent.name.to_string()),
                hooks_of_agent(agent),
            );
        }
        let place = blueprint.subagent.as_ref();
        if let Some(name) = place.and_then(|it| it.agent_type.as_deref())
            && let Some(works) = AgentTypes::of(resources).get(name)
        {
            scopes.always.push(HookScope::Agent(works.name.clone()));
            let skills = resources.agents.get(works.name.as_str());
            let skills = skills.into_iter().flat_map(|agent| &agent.skills);
            let skills = skills.filter_map(|name| resources.skill(name.as_str()).ok());
            let skills = skills.map(|skill| HookScope::Skill(skill.name.to_string()));
            scopes.always.extend(skills);
        }
        scopes
    }

    /// With what was in use above the session when it was started or taken up.
    #[must_use]
    pub fn below(mut self, inherited: Vec<HookScope>) -> Self {
        self.inherited = inherited;
        self.merged = None;
        self
    }

    /// What was in use above.
    pub fn inherited(&self) -> &[HookScope] {
        &self.inherited
    }

    fn add(&mut self, scope: &HookScope, parsed: Option<ParsedHooks>) -> bool {
        let Some(parsed) = parsed else {
            return false;
        };
        let mut hooks = Hooks::new();
        // Told when resources were loaded.
        let _ = hooks.add_file(parsed);
        self.parsed.insert(scope.clone(), hooks);
        true
    }

    /// The events that hooks of the session can listen to, whatever comes into
    /// use.
    pub fn events(&self, harness: &Hooks) -> BTreeSet<HookEventName> {
        let scoped = self.parsed.values();
        let scoped: Vec<Hooks> = scoped.map(|it| self.reaching(it, Reach::Own)).collect();
        let heard = |event: &HookEventName| {
            harness.listens_to(*event) || scoped.iter().any(|hooks| hooks.listens_to(*event))
        };
        HookEventName::ALL.into_iter().filter(heard).collect()
    }

    /// What subagents that are started now inherit, with these skills in use.
    pub fn in_use(&self, skills: impl Iterator<Item = String>) -> Vec<HookScope> {
        let mut scopes = self.inherited.clone();
        scopes.extend(self.own(skills));
        scopes.sort_unstable();
        scopes.dedup();
        scopes
    }

    fn own(&self, skills: impl Iterator<Item = String>) -> Vec<HookScope> {
        let used = skills.map(HookScope::Skill);
        let own = self.always.iter().cloned().chain(used);
        let mut own: Vec<HookScope> = own.filter(|it| self.parsed.contains_key(it)).collect();
        own.sort_unstable();
        own.dedup();
        own
    }

    /// The hooks that hold with these skills in use.
    pub fn hooks(
        &mut self,
        harness: &Arc<Hooks>,
        skills: impl Iterator<Item = String>,
    ) -> Arc<Hooks> {
        if self.parsed.is_empty() {
            return harness.clone();
        }
        let own = self.own(skills);
        if let Some((known, merged)) = &self.merged
            && *known == own
        {
            return merged.clone();
        }
        let above = self.inherited.iter().filter(|it| !own.contains(it));
        let reaches = own.iter().map(|it| (it, Reach::Own));
        let reaches = reaches.chain(above.map(|it| (it, Reach::Inherited)));
        let mut all = harness.as_ref().clone();
        for (scope, reach) in reaches {
            let Some(hooks) = self.parsed.get(scope) else {
                continue;
            };
            match all.merged(&self.reaching(hooks, reach)) {
                Ok(more) => all = more,
                Err(error) => tracing::warn!(?scope, %error, "hooks found no room"),
            }
        }
        let all = Arc::new(all);
        self.merged = Some((own, all.clone()));
        all
    }

    fn reaching(&self, hooks: &Hooks, reach: Reach) -> Hooks {
        match reach {
            Reach::Inherited => hooks.only(HookEventName::is_about_a_call),
            // The end of a subagent's work is an event of its own.
            Reach::Own if self.is_subagent => hooks.for_subagent(),
            Reach::Own => hooks.clone(),
        }
    }
}

/// The hooks of a skill's frontmatter; none if it has none.
pub fn hooks_of_skill(skill: &SkillDef, resources: &ResourceSnapshot) -> Option<ParsedHooks> {
    let written = skill.hooks.as_ref()?;
    let directory = skill.root().unwrap_or(Path::new("/"));
    let plugin = match &skill.origin {
        ResourceOrigin::Plugin { plugin_id } => resources.plugins.get(plugin_id),
        _ => None,
    };
    let root = plugin.map_or(directory, |plugin| plugin.root.as_path());
    let owner = format!("skill:{}", skill.name);
    let place = escape_path(&skill.path);
    let mut origin = HookOrigin::plugin(owner.into(), root, place).with_skill_dir(directory);
    if let Some(data) = plugin.and_then(|plugin| plugin.data.as_ref()) {
        origin = origin.with_data(data);
    }
    let owner = plugin.map_or(&skill.origin, |plugin| &plugin.origin);
    if *owner == ResourceOrigin::Project {
        origin = origin.in_project(project_holding(root));
    }
    Some(parse_value(written, &origin))
}

/// The hooks of an agent file's frontmatter; none if it has none.
pub fn hooks_of_agent(agent: &AgentDef) -> Option<ParsedHooks> {
    let written = agent.hooks.as_ref()?;
    let directory = agent.path.parent().unwrap_or(Path::new("/"));
    let owner = format!("agent:{}", agent.name);
    let place = escape_path(&agent.path);
    let mut origin = HookOrigin::plugin(owner.into(), directory, place);
    if agent.origin == ResourceOrigin::Project {
        origin = origin.in_project(project_holding(&agent.path));
    }
    Some(parse_value(written, &origin))
}

/// The hooks of all skills and agents of a snapshot, for people to read, and
/// what of them cannot be used.
pub fn frontmatter_hooks(resources: &ResourceSnapshot) -> (Hooks, Vec<HookWarning>) {
    let skills = resources.skills.values();
    let skills = skills.filter_map(|skill| hooks_of_skill(skill, resources));
    let agents = resources.agents.values().filter_map(hooks_of_agent);
    let mut hooks = Hooks::new();
    let warnings = skills
        .chain(agents)
        .flat_map(|parsed| hooks.add_file(parsed));
    let warnings = warnings.collect();
    (hooks, warnings)
}
