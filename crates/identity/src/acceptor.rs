//! A client's tokens, and whose they are.

use crate::authority::{Account, Authority, Random};
use crate::limits::{TOKEN_BYTES_MAX, TOKENS_MAX};
use crate::ntlm::acceptor::{Challenged, challenge};
use crate::ntlm::{self, Direction, Keys};
use crate::refusal::{Malformed, Refusal};
use crate::secret::SessionKey;
use crate::spnego::{Init, Mechanism, NegState, Response};
use crate::time::FileTime;
use std::mem;
use std::net::IpAddr;
use std::sync::Arc;

/// A client that is let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Who it is.
    pub account: Account,
    /// The key that both sides have.
    pub session_key: SessionKey,
    /// The last token for the client; empty if it needs none.
    pub token: Vec<u8>,
}

/// What comes of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The client is sent this, and answers.
    Continue(Vec<u8>),
    /// The client is let in.
    Done(Accepted),
    /// The client is not.
    Refused(Refusal),
}

/// One authentication, token by token: SPNEGO with NTLM in it, or NTLM alone.
pub struct Acceptor {
    authority: Arc<Authority>,
    /// The address of this service that the client has come to.
    reached_at: Option<IpAddr>,
    state: State,
    tokens: u8,
}

enum State {
    Start,
    /// The client's first mechanism was not ours: its first token for ours comes next.
    Chosen(Spnego),
    /// A challenge was sent.
    Challenged(Challenged, Option<Spnego>),
    Finished,
}

/// A negotiation of mechanisms.
struct Spnego {
    /// What the client proposed, as it is on the wire.
    mechanisms: Vec<u8>,
    /// Whether its first was chosen. If not, both sides must show that the list is the one sent (RFC 4178 §5).
    is_first: bool,
}

impl Acceptor {
    /// An authentication that begins.
    pub fn new(authority: Arc<Authority>) -> Self {
        Self { authority, reached_at: None, state: State::Start, tokens: 0 }
    }

    /// The same of a client that has come to this address: it may call the service by that as well.
    #[must_use]
    pub fn reached_at(self, address: IpAddr) -> Self {
        Self { reached_at: Some(address.to_canonical()), ..self }
    }

    /// Takes the client's next token. After `Done` or `Refused` every other one is refused.
    pub fn step(&mut self, token: &[u8], now: FileTime, random: Random<'_>) -> Step {
        let state = mem::replace(&mut self.state, State::Finished);
        self.tokens = self.tokens.saturating_add(1);
        if token.len() > TOKEN_BYTES_MAX || self.tokens > TOKENS_MAX {
            return Step::Refused(Refusal::TooMuch);
        }
        let stepped = match state {
            State::Start => self.start(token, now, random),
            State::Chosen(spnego) => Response::parse(token)
                .and_then(|response| response.token.ok_or(Malformed::SPNEGO.into()))
                .and_then(|token| self.challenge(token, Some(spnego), now, random)),
            State::Challenged(challenged, spnego) => self.finish(challenged, spnego, token).map(Step::Done),
            State::Finished => Err(Refusal::Finished),
        };
        stepped.unwrap_or_else(Step::Refused)
    }

    fn start(&mut self, token: &[u8], now: FileTime, random: Random<'_>) -> Result<Step, Refusal> {
        if token.starts_with(ntlm::SIGNATURE) {
            return self.challenge(token, None, now, random);
        }
        let init = Init::parse(token)?;
        let (Mechanism::Ntlm, is_first) = init.choose()?;
        let spnego = Spnego { mechanisms: init.mechanisms.to_vec(), is_first };
        match init.token.filter(|_| is_first) {
            Some(token) => self.challenge(token, Some(spnego), now, random),
            None => {
                let token = spnego.reply(None);
                self.state = State::Chosen(spnego);
                Ok(Step::Continue(token))
            }
        }
    }

    fn challenge(
        &mut self,
        negotiate: &[u8],
        spnego: Option<Spnego>,
        now: FileTime,
        random: Random<'_>,
    ) -> Result<Step, Refusal> {
        let challenged = challenge(&self.authority, negotiate, now, random)?;
        let message = challenged.message();
        let token = spnego.as_ref().map_or_else(|| message.to_vec(), |spnego| spnego.reply(Some(message)));
        self.state = State::Challenged(challenged, spnego);
        Ok(Step::Continue(token))
    }

    fn finish(
        &self,
        challenged: Challenged,
        spnego: Option<Spnego>,
        token: &[u8],
    ) -> Result<Accepted, Refusal> {
        let (account, keys, token) = match spnego {
            None => {
                let (account, keys) = challenged.finish(&self.authority, self.reached_at, token)?;
                (account, keys, Vec::new())
            }
            Some(spnego) => {
                let response = Response::parse(token)?;
                let message = response.token.ok_or(Malformed::SPNEGO)?;
                let (account, keys) = challenged.finish(&self.authority, self.reached_at, message)?;
                let token = spnego.finish(&keys, response.mic)?;
                (account, keys, token)
            }
        };
        Ok(Accepted { account, session_key: SessionKey::new(keys.exported), token })
    }
}

impl Spnego {
    /// What the client is sent until it has authenticated.
    fn reply(&self, token: Option<&[u8]>) -> Vec<u8> {
        let state = if self.is_first { NegState::AcceptIncomplete } else { NegState::RequestMic };
        Response { state: Some(state), mechanism: Some(Mechanism::Ntlm), token, mic: None }.to_bytes()
    }

    /// The last token, after the client's MIC over its list of mechanisms: it must be there if another mechanism than its
    /// first was chosen, and right if it is there (RFC 4178 §5).
    fn finish(&self, keys: &Keys, mic: Option<&[u8]>) -> Result<Vec<u8>, Refusal> {
        let is_right = mic.map(|mic| keys.verify(Direction::ClientToServer, &self.mechanisms, mic));
        match is_right {
            Some(false) => return Err(Refusal::Tampered),
            None if !self.is_first => return Err(Refusal::NoMic),
            Some(true) | None => {}
        }
        let ours = mic.map(|_| keys.sign(Direction::ServerToClient, &self.mechanisms));
        let mic = ours.as_ref().map(|mic| &mic[..]);
        Ok(Response { state: Some(NegState::AcceptCompleted), mic, ..Response::default() }.to_bytes())
    }
}
