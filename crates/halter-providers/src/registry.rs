//! Model ids to models to providers.

use crate::provider::Provider;
use halter_protocol::{ModelId, ModelRole, ProviderName, ResolvedModel};
use indexmap::IndexMap;
use std::sync::Arc;

/// The models a harness may use, by registered id, and who serves them.
///
/// The ids are `default`, `small`, `subagent` and any custom ones; a role that
/// has no model of its own uses that of `default`.
///
/// ```
/// use halter_protocol::{ProviderKind, ResolvedModel};
/// use halter_providers::{ModelRegistry, OfflineProvider};
/// use std::sync::Arc;
///
/// let mut models = ModelRegistry::new();
/// models.register_provider("offline", Arc::new(OfflineProvider::new()));
/// models.register_model(ResolvedModel {
///     id: "default".into(),
///     provider: "offline".into(),
///     provider_kind: ProviderKind::Offline,
///     model: "offline".into(),
///     max_input_tokens: None,
///     max_output_tokens: None,
///     reasoning: None,
///     tokens_per_minute: None,
/// });
///
/// let (model, _provider) = models.resolve(&"small".into())?;
/// assert_eq!(model.id.as_str(), "default");
/// assert_eq!(
///     models.model(&"large".into()).unwrap_err().to_string(),
///     "unknown model id 'large'; known ids: default, small, subagent; \
///      use one of them, or register 'large' first"
/// );
/// # Ok::<(), halter_providers::RegistryError>(())
/// ```
#[derive(Clone, Default)]
pub struct ModelRegistry {
    models: IndexMap<ModelId, ResolvedModel>,
    providers: IndexMap<ProviderName, Arc<dyn Provider>>,
    resolver: Option<Arc<dyn ModelResolver>>,
}

/// A model and who serves it.
pub type ServedModel = (ResolvedModel, Arc<dyn Provider>);

/// Finds models that nobody registered by their id, such as `ollama/qwen3`.
pub trait ModelResolver: Send + Sync {
    /// The model of an id and the provider that serves it. `None` if the id
    /// is not of a form that this finds models by.
    fn resolve(&self, id: &ModelId) -> Option<Result<ServedModel, RegistryError>>;
}

impl ModelRegistry {
    /// A registry without models.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a provider, or replaces the one of that name.
    pub fn register_provider(
        &mut self,
        name: impl Into<ProviderName>,
        provider: Arc<dyn Provider>,
    ) {
        self.providers.insert(name.into(), provider);
    }

    /// Adds a model under its id, or replaces the one of that id.
    pub fn register_model(&mut self, model: ResolvedModel) {
        self.models.insert(model.id.clone(), model);
    }

    /// Answers turns that name no model with this one, whatever its id was.
    pub fn set_default_model(&mut self, model: ResolvedModel) {
        self.set_role(ModelRole::Default, model);
    }

    /// Does small jobs, such as a title, with this model, whatever its id was.
    pub fn set_small_model(&mut self, model: ResolvedModel) {
        self.set_role(ModelRole::Small, model);
    }

    /// Runs subagents on this model, whatever its id was.
    pub fn set_subagent_model(&mut self, model: ResolvedModel) {
        self.set_role(ModelRole::Subagent, model);
    }

    fn set_role(&mut self, role: ModelRole, model: ResolvedModel) {
        self.register_model(ResolvedModel {
            id: role.as_str().into(),
            ..model
        });
    }

    /// Finds models by ids that are not registered, too.
    pub fn set_resolver(&mut self, resolver: Arc<dyn ModelResolver>) {
        self.resolver = Some(resolver);
    }

    /// The registered model of an id.
    pub fn model(&self, id: &ModelId) -> Result<&ResolvedModel, RegistryError> {
        self.models
            .get(id)
            .or_else(|| self.role_fallback(id))
            .ok_or_else(|| self.unknown_model(id))
    }

    /// The model of an id and the provider that serves it, if that very id is
    /// registered: a role does not fall back on another.
    pub fn registered(&self, id: &ModelId) -> Option<ServedModel> {
        let model = self.models.get(id)?;
        Some((model.clone(), self.provider(&model.provider).ok()?.clone()))
    }

    /// The provider of a name.
    pub fn provider(&self, name: &ProviderName) -> Result<&Arc<dyn Provider>, RegistryError> {
        self.providers
            .get(name)
            .ok_or_else(|| RegistryError::UnknownProvider {
                name: name.clone(),
                known: self.providers.keys().cloned().collect(),
            })
    }

    /// The model of an id and the provider that serves it: a registered one,
    /// or one that the resolver finds.
    pub fn resolve(&self, id: &ModelId) -> Result<ServedModel, RegistryError> {
        let unknown = match self.model(id) {
            Ok(model) => return Ok((model.clone(), self.provider(&model.provider)?.clone())),
            Err(unknown) => unknown,
        };
        let found = self.resolver.as_ref().and_then(|found| found.resolve(id));
        found.unwrap_or(Err(unknown))
    }

    /// Every registered id [`model`](Self::model) answers: the roles first, then the
    /// custom ones in the order they were registered.
    pub fn model_ids(&self) -> Vec<ModelId> {
        let roles = ModelRole::ALL
            .iter()
            .map(|role| ModelId::from(role.as_str()))
            .filter(|id| self.models.contains_key(id) || self.role_fallback(id).is_some());
        let custom = self.models.keys().filter(|id| !is_role(id)).cloned();
        roles.chain(custom).collect()
    }

    fn role_fallback(&self, id: &ModelId) -> Option<&ResolvedModel> {
        is_role(id)
            .then(|| self.models.get(ModelRole::Default.as_str()))
            .flatten()
    }

    fn unknown_model(&self, id: &ModelId) -> RegistryError {
        let same_name = self
            .models
            .values()
            .find(|model| model.model == id.as_str());
        RegistryError::UnknownModel {
            id: id.clone(),
            known: self.model_ids(),
            meant: same_name.map(|model| model.id.clone()),
        }
    }
}

fn is_role(id: &ModelId) -> bool {
    ModelRole::ALL
        .iter()
        .any(|role| role.as_str() == id.as_str())
}

impl std::fmt::Debug for ModelRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelRegistry")
            .field("models", &self.models)
            .field("providers", &self.providers.keys())
            .finish()
    }
}

/// An id or name that nothing is registered under.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// No model has this id.
    #[error("unknown model id '{id}'; {}; {}", list("ids", known), model_remedy(id, known, meant.as_ref()))]
    UnknownModel {
        /// The id asked for.
        id: ModelId,
        /// The ids there are.
        known: Vec<ModelId>,
        /// The id of a model whose own name at its provider was given instead.
        meant: Option<ModelId>,
    },
    /// A model names a provider nobody registered.
    #[error(
        "unknown provider '{name}'; {}; register '{name}' before using its models",
        list("providers", known)
    )]
    UnknownProvider {
        /// The name asked for.
        name: ProviderName,
        /// The names there are.
        known: Vec<ProviderName>,
    },
    /// The id is understood, but its model cannot be used.
    #[error("the model '{id}' cannot be used: {message}")]
    Unusable {
        /// The id asked for.
        id: ModelId,
        /// The stable reason.
        code: &'static str,
        /// What is wrong, and what to do about it.
        message: String,
    },
}

impl RegistryError {
    /// The stable reason.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownModel { .. } => "unknown_model",
            Self::UnknownProvider { .. } => "unknown_provider",
            Self::Unusable { code, .. } => code,
        }
    }
}

fn list<T: AsRef<str>>(what: &str, known: &[T]) -> String {
    if known.is_empty() {
        return format!("no {what} are registered");
    }
    let known: Vec<&str> = known.iter().map(AsRef::as_ref).collect();
    format!("known {what}: {}", known.join(", "))
}

fn model_remedy(id: &ModelId, known: &[ModelId], meant: Option<&ModelId>) -> String {
    match meant {
        Some(meant) => {
            format!("'{id}' is its provider's name of the model with the id '{meant}': use that id")
        }
        None if known.is_empty() => format!("register '{id}', or 'default' for every role, first"),
        None => format!("use one of them, or register '{id}' first"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::{EventStream, ProviderCapabilities, ProviderRequest};
    use tokio_util::sync::CancellationToken;

    struct Silent;

    #[async_trait::async_trait]
    impl Provider for Silent {
        fn capabilities(&self) -> ProviderCapabilities {
            ProviderCapabilities::new()
        }

        async fn stream(
            &self,
            _request: ProviderRequest,
            _cancel: CancellationToken,
        ) -> anyhow::Result<EventStream> {
            Ok(Box::pin(futures::stream::empty()))
        }
    }

    fn model(id: &str, name: &str) -> ResolvedModel {
        ResolvedModel {
            id: id.into(),
            ..crate::test_model::model(name)
        }
    }

    fn registry() -> ModelRegistry {
        let mut registry = ModelRegistry::new();
        registry.register_provider("acme", Arc::new(Silent));
        registry.register_model(model("default", "acme-large"));
        registry.register_model(model("reviewer", "acme-careful"));
        registry.register_model(model("subagent", "acme-mini"));
        registry
    }

    fn names(ids: &[ModelId]) -> Vec<&str> {
        ids.iter().map(ModelId::as_str).collect()
    }

    #[test]
    fn a_model_of_a_role_goes_by_the_name_of_the_role() {
        let mut registry = ModelRegistry::new();
        registry.set_default_model(model("a", "large"));
        registry.set_small_model(model("b", "little"));
        registry.set_subagent_model(model("c", "medium"));
        for (role, expected) in [
            ("default", "large"),
            ("small", "little"),
            ("subagent", "medium"),
        ] {
            let found = registry.model(&role.into()).unwrap();
            assert_eq!((found.id.as_str(), found.model.as_str()), (role, expected));
        }
    }

    #[test]
    fn a_role_without_a_model_uses_that_of_default() {
        let registry = registry();
        let resolve = |id: &str| registry.resolve(&id.into()).unwrap().0.model.clone();
        assert_eq!(resolve("small"), "acme-large");
        assert_eq!(resolve("subagent"), "acme-mini");
        assert_eq!(resolve("reviewer"), "acme-careful");
    }

    #[test]
    fn ids_are_listed_roles_first() {
        assert_eq!(
            names(&registry().model_ids()),
            ["default", "small", "subagent", "reviewer"]
        );
        let mut only_custom = ModelRegistry::new();
        only_custom.register_model(model("reviewer", "x"));
        assert_eq!(names(&only_custom.model_ids()), ["reviewer"]);
    }

    #[test]
    fn an_unknown_id_lists_the_known_ones_and_the_remedy() {
        let error = registry().model(&"large".into()).unwrap_err();
        assert_eq!(error.code(), "unknown_model");
        assert_eq!(
            error.to_string(),
            "unknown model id 'large'; known ids: default, small, subagent, reviewer; \
             use one of them, or register 'large' first"
        );
        assert_eq!(
            ModelRegistry::new()
                .model(&"small".into())
                .unwrap_err()
                .to_string(),
            "unknown model id 'small'; no ids are registered; \
             register 'small', or 'default' for every role, first"
        );
    }

    #[test]
    fn a_providers_model_name_is_answered_with_the_id_it_has_here() {
        let error = registry().model(&"acme-mini".into()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown model id 'acme-mini'; known ids: default, small, subagent, reviewer; \
             'acme-mini' is its provider's name of the model with the id 'subagent': use that id"
        );
    }

    struct Finder;

    impl ModelResolver for Finder {
        fn resolve(&self, id: &ModelId) -> Option<Result<ServedModel, RegistryError>> {
            let (provider, name) = id.as_str().split_once('/')?;
            Some(match provider {
                "acme" => Ok((model(id.as_str(), name), Arc::new(Silent))),
                _ => Err(RegistryError::Unusable {
                    id: id.clone(),
                    code: "no_key",
                    message: "there is no key".to_owned(),
                }),
            })
        }
    }

    #[test]
    fn ids_of_another_form_are_left_to_the_resolver() {
        let mut registry = registry();
        registry.set_resolver(Arc::new(Finder));
        let resolve = |id: &str| registry.resolve(&id.into()).map(|(model, _)| model.model);
        assert_eq!(resolve("default").unwrap(), "acme-large");
        assert_eq!(resolve("acme/new").unwrap(), "new");
        let error = resolve("other/new").unwrap_err();
        assert_eq!(error.code(), "no_key");
        assert_eq!(
            error.to_string(),
            "the model 'other/new' cannot be used: there is no key"
        );
        assert_eq!(resolve("large").unwrap_err().code(), "unknown_model");
    }

    #[test]
    fn a_model_of_an_unregistered_provider_says_which() {
        let mut registry = registry();
        let orphan = ResolvedModel {
            provider: "nobody".into(),
            ..model("orphan", "x")
        };
        registry.register_model(orphan);
        let Err(error) = registry.resolve(&"orphan".into()) else {
            panic!("nobody serves it");
        };
        assert_eq!(error.code(), "unknown_provider");
        assert_eq!(
            error.to_string(),
            "unknown provider 'nobody'; known providers: acme; \
             register 'nobody' before using its models"
        );
    }
}
