//! Authentication: SPNEGO and NTLMv2, local users and groups, and security identifiers.
//!
//! [`Acceptor`] turns a client's tokens into an [`Identity`] with a [`vfs::Credential`]. [`Resolver`] maps names,
//! numbers and security identifiers to each other. Both read [`Accounts`], the local users and groups. Nothing here
//! opens a socket or a file, reads a clock or draws random numbers: time and randomness are arguments.
//!
//! Layers, top down: `accounts`, `ntlm`.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod acceptor;
mod accounts;
mod authority;
mod der;
mod initiator;
mod limits;
mod names;
mod ntlm;
mod refusal;
mod resolver;
mod secret;
mod sid;
mod spnego;
#[cfg(test)]
mod tests;
mod time;

pub use acceptor::{Accepted, Acceptor, Step};
pub use accounts::{Accounts, Conflict, Group, ListEntry, Mapping, SharedAccounts, User, builtin_aliases};
pub use authority::{Account, Authority, MicPolicy, Random};
pub use initiator::{Credentials, Initiator};
pub use limits::*;
pub use names::{AccountName, ServerNames, WindowsName, folded};
pub use refusal::Refusal;
pub use resolver::{Id, Identity, NotMapped, Principal, PrincipalKind, Resolver};
pub use secret::{NtHash, SessionKey};
pub use sid::Sid;
pub use spnego::neg_token_init2;
pub use time::FileTime;
