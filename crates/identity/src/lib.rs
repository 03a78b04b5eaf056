//! Who is calling: SPNEGO and NTLMv2, users and groups of our own, and security identifiers.
//!
//! [`Acceptor`] takes a client's tokens and says whose they are, as an [`Identity`] with a [`vfs::Credential`]; [`Resolver`] says
//! who is who; [`Accounts`] are the users and groups of this service, by which both answer. Nothing here opens a socket or
//! a file, looks at a clock or draws a random number: time and randomness are arguments.
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
pub use accounts::{Accounts, Conflict, Group, Listed, Mapping, SharedAccounts, User, builtin_aliases};
pub use authority::{Account, Authority, MicPolicy, Random};
pub use initiator::{Credentials, Initiator};
pub use limits::*;
pub use names::{AccountName, ServerNames, WindowsName, folded};
pub use refusal::Refusal;
pub use resolver::{Id, Identity, NotMapped, Principal, PrincipalKind, Resolver};
pub use secret::{NtHash, SessionKey};
pub use sid::Sid;
pub use spnego::hint;
pub use time::FileTime;
