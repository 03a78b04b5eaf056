//! The rules of an authentication, and its outcome.

use crate::accounts::SharedAccounts;
use crate::names::ServerNames;
use crate::resolver::Identity;

/// Fills the slice with unpredictable random bytes.
pub type Random<'a> = &'a mut dyn FnMut(&mut [u8]);

/// The rules by which clients authenticate.
#[derive(Clone)]
pub struct Authority {
    /// The server's names, as the CHALLENGE states them.
    pub names: ServerNames,
    pub accounts: SharedAccounts,
    /// Whether null sessions are accepted, as [`Account::Anonymous`].
    pub null_sessions: bool,
    pub mic: MicPolicy,
    /// Host names that a client may give as its target, besides the address that it connected to. Empty: any. A client
    /// that names no target is accepted.
    pub target_names: Vec<String>,
}

/// Which clients must send a MIC over the messages of the exchange. The proof of the password covers the flag that
/// announces a MIC, so an attacker cannot strip it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MicPolicy {
    /// Clients that announce one. The Linux kernel never does.
    Announced,
    Always,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Account {
    /// A null session. It may read only public information.
    Anonymous,
    /// A user, as it was when its password was verified.
    User(Identity),
}
