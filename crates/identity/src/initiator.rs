//! The client's side, for load generators and tests.

use crate::authority::Random;
use crate::ntlm::{Direction, Keys, initiator};
use crate::refusal::{Malformed, Refusal};
use crate::secret::{NtHash, SessionKey};
use crate::spnego::{NegState, NegTokenInit, NegTokenResp, mechanism_list};
use crate::time::FileTime;

#[derive(Clone, Debug)]
pub struct Credentials {
    pub user: String,
    /// The user's domain, or empty.
    pub domain: String,
    pub nt_hash: NtHash,
}

/// One authentication as a client, over SPNEGO: [`Initiator::start`], [`Initiator::step`], [`Initiator::finish`].
pub struct Initiator {
    credentials: Credentials,
    /// The target name, `cifs/HOST`.
    target: String,
    keys: Option<Keys>,
}

impl Initiator {
    /// Begins an authentication with the file service of `host`.
    pub fn new(credentials: Credentials, host: &str) -> Self {
        Self { credentials, target: format!("cifs/{host}"), keys: None }
    }

    pub fn start(&self) -> Vec<u8> {
        NegTokenInit { mechanisms: &mechanism_list(), token: Some(&initiator::negotiate()) }.to_bytes()
    }

    /// Answers the server's challenge.
    pub fn step(&mut self, token: &[u8], now: FileTime, random: Random<'_>) -> Result<Vec<u8>, Refusal> {
        let challenge = NegTokenResp::parse(token)?.token.ok_or(Malformed::SPNEGO)?;
        let (message, keys) =
            initiator::authenticate(&self.credentials, &self.target, challenge, now, random)?;
        let mic = keys.sign(Direction::ClientToServer, &mechanism_list());
        self.keys = Some(keys);
        Ok(NegTokenResp { token: Some(&message), mic: Some(&mic), ..NegTokenResp::default() }.to_bytes())
    }

    /// Verifies the server's last token and returns the session key.
    pub fn finish(self, token: &[u8]) -> Result<SessionKey, Refusal> {
        let keys = self.keys.ok_or(Refusal::Finished)?;
        let response = NegTokenResp::parse(token)?;
        let is_right =
            response.mic.is_some_and(|mic| keys.verify(Direction::ServerToClient, &mechanism_list(), mic));
        if response.state != Some(NegState::AcceptCompleted) || !is_right {
            return Err(Refusal::Tampered);
        }
        Ok(SessionKey::new(keys.exported))
    }
}
