//! The client's side, for load generators and tests.

use crate::authority::Random;
use crate::ntlm::{Direction, Keys, initiator};
use crate::refusal::{Malformed, Refusal};
use crate::secret::{NtHash, SessionKey};
use crate::spnego::{Init, NegState, Response, offered};
use crate::time::FileTime;

/// A user, to a client.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The user's name.
    pub user: String,
    /// The user's domain, or nothing.
    pub domain: String,
    /// The hash of the user's password.
    pub nt_hash: NtHash,
}

/// One authentication as a client, over SPNEGO: [`Initiator::start`], [`Initiator::step`], [`Initiator::finish`].
pub struct Initiator {
    credentials: Credentials,
    /// The service that is meant.
    target: String,
    keys: Option<Keys>,
}

impl Initiator {
    /// An authentication that begins, with the file service of `host`.
    pub fn new(credentials: Credentials, host: &str) -> Self {
        Self { credentials, target: format!("cifs/{host}"), keys: None }
    }

    /// The first token.
    pub fn start(&self) -> Vec<u8> {
        Init { mechanisms: &offered(), token: Some(&initiator::negotiate()) }.to_bytes()
    }

    /// The token that answers the server's challenge.
    pub fn step(&mut self, token: &[u8], now: FileTime, random: Random<'_>) -> Result<Vec<u8>, Refusal> {
        let challenge = Response::parse(token)?.token.ok_or(Malformed::SPNEGO)?;
        let (message, keys) =
            initiator::authenticate(&self.credentials, &self.target, challenge, now, random)?;
        let mic = keys.sign(Direction::ClientToServer, &offered());
        self.keys = Some(keys);
        Ok(Response { token: Some(&message), mic: Some(&mic), ..Response::default() }.to_bytes())
    }

    /// The key that both sides have, if the server's last token is its own.
    pub fn finish(self, token: &[u8]) -> Result<SessionKey, Refusal> {
        let keys = self.keys.ok_or(Refusal::Finished)?;
        let response = Response::parse(token)?;
        let is_right =
            response.mic.is_some_and(|mic| keys.verify(Direction::ServerToClient, &offered(), mic));
        if response.state != Some(NegState::AcceptCompleted) || !is_right {
            return Err(Refusal::Tampered);
        }
        Ok(SessionKey::new(keys.exported))
    }
}
