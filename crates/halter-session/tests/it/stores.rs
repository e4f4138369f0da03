//! The conformance suite against both stores.

use halter_session::{InMemorySessionStore, SessionStore, SqliteSessionStore};
use std::sync::Arc;

mod memory {
    use super::*;

    halter_session::session_store_conformance!({
        let store: Arc<dyn SessionStore> = Arc::new(InMemorySessionStore::new());
        move || {
            let store = store.clone();
            async move { store }
        }
    });
}

mod sqlite {
    use super::*;

    halter_session::session_store_conformance!({
        let directory = tempfile::tempdir().unwrap();
        move || {
            let path = directory.path().join("state/sessions.db");
            async move {
                let store = SqliteSessionStore::open(path).await.unwrap();
                Arc::new(store) as Arc<dyn SessionStore>
            }
        }
    });
}
