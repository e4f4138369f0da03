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

/// A store that keeps its own idea of who writes, or hides what it cannot read.
mod careless {
    use super::*;
    use async_trait::async_trait;
    use bytes::Bytes;
    use halter_protocol::SessionId;
    use halter_session::conformance;
    use halter_session::{
        AppendBatch, BlobHash, Durability, EventRecord, OpenedSession, PageRequest, SessionPage,
        SessionRecord, StoreError, WriterToken,
    };
    use rusqlite::Connection;
    use std::future::Future;
    use std::path::PathBuf;

    struct Careless(SqliteSessionStore);

    #[async_trait]
    impl SessionStore for Careless {
        async fn create(&self, record: SessionRecord) -> Result<WriterToken, StoreError> {
            self.0.create(record).await
        }
        async fn acquire(&self, session_id: &SessionId) -> Result<WriterToken, StoreError> {
            self.0.acquire(session_id).await
        }
        async fn append(
            &self,
            token: &WriterToken,
            expected_head: u64,
            batch: AppendBatch,
            durability: Durability,
        ) -> Result<u64, StoreError> {
            let fresh = self.0.acquire(&token.session_id).await?;
            self.0
                .append(&fresh, expected_head, batch, durability)
                .await
        }
        async fn read(
            &self,
            session_id: &SessionId,
            after: u64,
            limit: usize,
        ) -> Result<Vec<EventRecord>, StoreError> {
            self.0.read(session_id, after, limit).await
        }
        async fn open(&self, session_id: &SessionId) -> Result<OpenedSession, StoreError> {
            self.0.open(session_id).await
        }
        async fn list(&self, page: PageRequest) -> Result<SessionPage, StoreError> {
            let mut page = self.0.list(page).await?;
            page.unreadable.clear();
            Ok(page)
        }
        async fn delete(&self, session_id: &SessionId) -> Result<bool, StoreError> {
            self.0.delete(session_id).await
        }
        async fn blob(&self, hash: &BlobHash) -> Result<Option<Bytes>, StoreError> {
            self.0.blob(hash).await
        }
        async fn close(&self) -> Result<(), StoreError> {
            self.0.close().await
        }
    }

    async fn careless(path: PathBuf) -> Arc<dyn SessionStore> {
        Arc::new(Careless(SqliteSessionStore::open(path).await.unwrap()))
    }

    async fn careful(path: PathBuf) -> Arc<dyn SessionStore> {
        Arc::new(SqliteSessionStore::open(path).await.unwrap())
    }

    fn spoil(path: &std::path::Path, id: &str) {
        let spoil = "UPDATE sessions SET working_dir = CAST(x'ff' AS TEXT) WHERE session_id = ?1";
        let file = Connection::open(path).unwrap();
        assert_eq!(file.execute(spoil, [id]).unwrap(), 1);
    }

    /// True if the rule panics.
    async fn fails(rule: impl Future<Output = ()> + 'static) -> bool {
        let local = tokio::task::LocalSet::new();
        let run = local.run_until(async { tokio::task::spawn_local(rule).await });
        run.await.is_err()
    }

    #[tokio::test]
    async fn an_unreadable_session_hides_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sessions.db");
        let open = || careful(path.clone());
        let damage = async |id: &str| spoil(&path, id);
        conformance::an_unreadable_session_hides_no_other(open, damage).await;
    }

    #[tokio::test]
    async fn the_suite_notices_a_store_that_ignores_a_takeover() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sessions.db");
        let open = move || careless(path.clone());
        let rule = conformance::a_takeover_by_another_open_store_is_noticed(open);
        assert!(fails(rule).await);
    }

    #[tokio::test]
    async fn the_suite_notices_a_store_that_hides_what_it_cannot_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sessions.db");
        let spoilt = path.clone();
        let open = move || careless(path.clone());
        let damage = async move |id: &str| spoil(&spoilt, id);
        let rule = conformance::an_unreadable_session_hides_no_other(open, damage);
        assert!(fails(rule).await);
    }
}
