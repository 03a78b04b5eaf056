//! By what rules clients are let in, and who they have proven to be.

use crate::accounts::SharedAccounts;
use crate::names::ServerNames;
use crate::resolver::Identity;

/// Fills with random bytes that nobody can guess.
pub type Random<'a> = &'a mut dyn FnMut(&mut [u8]);

/// On whose behalf clients are let in, and by what rules.
#[derive(Clone)]
pub struct Authority {
    /// What the server says its names are.
    pub names: ServerNames,
    /// The users whose passwords clients may prove.
    pub accounts: SharedAccounts,
    /// Whether clients without a name are let in, as [`Account::Anonymous`].
    pub null_sessions: bool,
    /// Who must give a MIC.
    pub mic: MicPolicy,
    /// The hosts by which clients may call this service, besides the address that they have reached it at; any if there are none.
    /// Clients that say nothing are believed.
    pub target_names: Vec<String>,
}

/// Which clients must give a MIC over the messages of the exchange. Whether a client gives one is covered by the proof of
/// its password, so with both nobody else can take it away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MicPolicy {
    /// Those that say they do. The kernel of Linux never does.
    Announced,
    /// All.
    Always,
}

/// Who a client has proven to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Account {
    /// Nobody: a null session, which may ask for nothing but what anybody may know.
    Anonymous,
    /// A user, as it was when its password was proven.
    User(Identity),
}
