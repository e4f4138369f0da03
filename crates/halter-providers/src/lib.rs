//! The model provider trait, the model registry, the scripted fake and the offline model.
