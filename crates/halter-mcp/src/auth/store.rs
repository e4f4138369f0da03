//! The files with the tokens: one for each server, readable by its user alone,
//! replaced as a whole, one writer at a time.

use crate::limits::{TOKEN_FILE_BYTES, TOKEN_LOCK_WAIT};
use crate::names::ServerName;
use async_trait::async_trait;
use rmcp::transport::auth::{
    AuthError, CredentialRefreshGuard, CredentialStore, StoredCredentials,
};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use url::Url;

/// Hexadecimal digits of the address in the name of a file.
const MARK_DIGITS: usize = 16;

/// How often a process that waits for another one tries again.
const LOCK_POLL: Duration = Duration::from_millis(20);

/// The directory with the tokens of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenStore(PathBuf);

impl TokenStore {
    /// The tokens in a directory. Nothing is read or made yet.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }

    /// The tokens of one server. They are bound to its address: a server of
    /// the same name elsewhere has none of them.
    pub(crate) fn of(&self, server: &ServerName, url: &Url) -> ServerTokens {
        let digest = Sha256::digest(url.as_str().as_bytes());
        let mark: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let mark: String = mark.chars().take(MARK_DIGITS).collect();
        ServerTokens {
            directory: self.0.clone(),
            file: self.0.join(format!("{server}-{mark}.json")),
            lock: self.0.join(format!("{server}-{mark}.lock")),
        }
    }
}

/// The file with the tokens of one server.
#[derive(Debug, Clone)]
pub(crate) struct ServerTokens {
    directory: PathBuf,
    file: PathBuf,
    lock: PathBuf,
}

/// What the file holds.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// The secret of a client that was registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_secret: Option<String>,
    pub(crate) credentials: StoredCredentials,
}

impl Kept {
    pub(crate) fn client_secret(&self) -> Option<SecretString> {
        self.client_secret.clone().map(SecretString::from)
    }
}

impl ServerTokens {
    /// What is kept, if anything. A file that is none of ours counts as absent.
    pub(crate) async fn kept(&self) -> Result<Option<Kept>, String> {
        let file = self.file.clone();
        blocking(move || read(&file)).await
    }

    /// When what is kept last changed.
    pub(crate) async fn changed(&self) -> Option<std::time::SystemTime> {
        let file = self.file.clone();
        let changed = blocking(move || std::fs::metadata(&file)?.modified()).await;
        changed.ok()
    }

    /// Remembers the secret of a client that was registered, for the tokens
    /// that are saved next.
    pub(crate) async fn with_secret(
        &self,
        credentials: StoredCredentials,
        secret: Option<&SecretString>,
    ) -> Result<(), String> {
        let kept = Kept {
            client_secret: secret.map(|secret| secret.expose_secret().to_owned()),
            credentials,
        };
        let tokens = self.clone();
        blocking(move || tokens.write(&kept)).await
    }

    /// Forgets everything. Returns whether there was something.
    pub(crate) async fn forget(&self) -> Result<bool, String> {
        let file = self.file.clone();
        blocking(move || match std::fs::remove_file(&file) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        })
        .await
    }

    fn write(&self, kept: &Kept) -> io::Result<()> {
        self.make_directory()?;
        let mut temporary = tempfile::Builder::new()
            .prefix(".token-")
            .permissions(std::fs::Permissions::from_mode(0o600))
            .tempfile_in(&self.directory)?;
        temporary.write_all(&serde_json::to_vec(kept)?)?;
        temporary.as_file().sync_all()?;
        temporary.persist(&self.file).map_err(|error| error.error)?;
        Ok(())
    }

    fn make_directory(&self) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)
    }

    /// Waits until no other process renews these tokens.
    fn locked(&self) -> io::Result<File> {
        self.make_directory()?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&self.lock)?;
        let deadline = Instant::now() + TOKEN_LOCK_WAIT;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(lock),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::thread::sleep(LOCK_POLL);
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(io::Error::other("another process holds it for too long"));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }
}

fn read(file: &Path) -> io::Result<Option<Kept>> {
    let opened = match File::open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if opened.metadata()?.permissions().mode() & 0o077 != 0 {
        return Err(io::Error::other(
            "others can read it: give it the mode 600, and log in again",
        ));
    }
    let limit = u64::try_from(TOKEN_FILE_BYTES).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    opened
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() > TOKEN_FILE_BYTES {
        return Err(io::Error::other("it is too large to be ours"));
    }
    // The text of the error would quote what the file holds.
    let kept = serde_json::from_slice(&bytes);
    Ok(kept.ok())
}

/// Runs on a thread for blocking work. Errors name no content.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|error| error.to_string())?;
    done.map_err(|error| format!("the file with the tokens cannot be used: {error}"))
}

#[async_trait]
impl CredentialStore for ServerTokens {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let kept = self.kept().await.map_err(AuthError::CredentialStoreError)?;
        Ok(kept.map(|kept| kept.credentials))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let kept = self.kept().await.ok().flatten();
        // The secret belongs to the client, not to the token.
        let same = kept.filter(|kept| kept.credentials.client_id == credentials.client_id);
        let secret = same.and_then(|kept| kept.client_secret());
        self.with_secret(credentials, secret.as_ref())
            .await
            .map_err(AuthError::CredentialStoreError)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        let forgotten = self.forget().await;
        forgotten.map_err(AuthError::CredentialStoreError)?;
        Ok(())
    }

    async fn on_refresh_token_rejected(&self, _: &StoredCredentials) -> Result<(), AuthError> {
        // The guard is held: these are the ones that were refused.
        self.clear().await
    }

    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let tokens = self.clone();
        let locked = blocking(move || tokens.locked()).await;
        let lock = locked.map_err(AuthError::CredentialStoreError)?;
        Ok(Some(CredentialRefreshGuard::new(lock)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(directory: &Path) -> ServerTokens {
        let url = Url::parse("https://a.example/mcp").unwrap();
        TokenStore::new(directory.join("tokens")).of(&ServerName::new("x").unwrap(), &url)
    }

    fn credentials(client: &str) -> StoredCredentials {
        StoredCredentials::new(client.to_owned(), None, Vec::new(), None)
    }

    #[tokio::test]
    async fn tokens_are_their_users_alone_and_bound_to_an_address() {
        let place = tempfile::tempdir().unwrap();
        let tokens = tokens(place.path());
        assert!(tokens.load().await.unwrap().is_none());
        let secret = SecretString::from("s3cret");
        let saved = tokens.with_secret(credentials("c"), Some(&secret)).await;
        saved.unwrap();
        tokens.save(credentials("c")).await.unwrap();
        let kept = tokens.kept().await.unwrap().unwrap();
        assert_eq!(kept.client_secret().unwrap().expose_secret(), "s3cret");
        tokens.save(credentials("other")).await.unwrap();
        assert!(
            tokens
                .kept()
                .await
                .unwrap()
                .unwrap()
                .client_secret()
                .is_none()
        );
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&tokens.file), 0o600);
        assert_eq!(mode(&tokens.directory), 0o700);
        let elsewhere = Url::parse("https://b.example/mcp").unwrap();
        let other =
            TokenStore(tokens.directory.clone()).of(&ServerName::new("x").unwrap(), &elsewhere);
        assert!(other.load().await.unwrap().is_none());
        assert!(tokens.forget().await.unwrap());
        assert!(!tokens.forget().await.unwrap());
    }

    #[tokio::test]
    async fn a_file_that_others_read_or_that_is_too_large_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let tokens = tokens(place.path());
        tokens.save(credentials("c")).await.unwrap();
        let open = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(&tokens.file, open).unwrap();
        assert!(tokens.kept().await.err().unwrap().contains("mode 600"));
        let write = |bytes: usize| {
            std::fs::write(&tokens.file, "x".repeat(bytes)).unwrap();
            let own = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(&tokens.file, own).unwrap();
        };
        write(TOKEN_FILE_BYTES);
        assert!(tokens.kept().await.unwrap().is_none());
        write(TOKEN_FILE_BYTES + 1);
        assert!(tokens.kept().await.err().unwrap().contains("too large"));
    }

    #[tokio::test]
    async fn one_process_renews_at_a_time() {
        let place = tempfile::tempdir().unwrap();
        let tokens = tokens(place.path());
        let guard = tokens.acquire_refresh_guard().await.unwrap();
        let held = OpenOptions::new().write(true).open(&tokens.lock).unwrap();
        assert!(held.try_lock().is_err());
        drop(guard);
        assert!(held.try_lock().is_ok());
        // A request to an authorization server ends before whoever waits gives up.
        assert!(TOKEN_LOCK_WAIT > crate::limits::OAUTH_WAIT);
    }
}
