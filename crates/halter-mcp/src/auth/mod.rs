//! Logging in to servers over HTTP, by OAuth.
//!
//! A session never asks anybody to log in: it uses the tokens that
//! [`Login`] has put into the store, renews them before they expire, and says
//! which server needs a login. The flow itself is the library's; every request
//! of it goes through a client of ours with bounds.
//!
//! | module | holds |
//! |---|---|
//! | `settings` | what is known of a client beforehand |
//! | `store` | the files with the tokens |
//! | `fetch` | one request to an authorization server |
//! | `token` | the token of the next request |
//! | `login` | a login from its beginning to its end |

mod fetch;
mod login;
mod settings;
mod store;
mod token;

pub use login::{Login, LoginError, LoginRequest, logout};
pub(crate) use settings::Challenge;
pub use settings::OAuthSettings;
pub use store::TokenStore;
pub(crate) use token::{AuthFailure, Authorization, worth_trying};
