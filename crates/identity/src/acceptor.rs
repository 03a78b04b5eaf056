//! The server's side of an authentication, token by token.

use crate::authority::{Account, Authority, Random};
use crate::limits::{TOKEN_BYTES_MAX, TOKENS_MAX};
use crate::ntlm::acceptor::{PendingChallenge, challenge};
use crate::ntlm::{self, Direction, Keys};
use crate::refusal::{Malformed, Refusal};
use crate::secret::SessionKey;
use crate::spnego::{Mechanism, NegState, NegTokenInit, NegTokenResp};
use crate::time::FileTime;
use std::mem;
use std::net::IpAddr;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub account: Account,
    pub session_key: SessionKey,
    /// The last token for the client; empty if it needs none.
    pub token: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this token; the client answers with another.
    Continue(Vec<u8>),
    Done(Accepted),
    Refused(Refusal),
}

/// One authentication, token by token: SPNEGO with NTLM in it, or NTLM alone.
pub struct Acceptor {
    authority: Arc<Authority>,
    /// The address of this service that the client connected to.
    reached_at: Option<IpAddr>,
    state: State,
    tokens: u8,
}

enum State {
    Start,
    /// The client's preferred mechanism is not supported. Its next token starts the chosen one.
    MechanismChosen(Spnego),
    ChallengeSent(PendingChallenge, Option<Spnego>),
    Finished,
}

/// A SPNEGO negotiation of mechanisms.
struct Spnego {
    /// The client's `MechTypeList`, as on the wire.
    mechanisms: Vec<u8>,
    /// Whether the client's first mechanism was chosen. If not, both sides must prove that the list is unchanged (RFC
    /// 4178 §5).
    is_preferred: bool,
}

impl Acceptor {
    pub fn new(authority: Arc<Authority>) -> Self {
        Self { authority, reached_at: None, state: State::Start, tokens: 0 }
    }

    /// Also accepts `address` as a target name (see [`Authority::target_names`]).
    #[must_use]
    pub fn reached_at(self, address: IpAddr) -> Self {
        Self { reached_at: Some(address.to_canonical()), ..self }
    }

    /// Consumes the client's next token. After `Done` or `Refused` every further token is refused.
    pub fn step(&mut self, token: &[u8], now: FileTime, random: Random<'_>) -> Step {
        let state = mem::replace(&mut self.state, State::Finished);
        self.tokens = self.tokens.saturating_add(1);
        if token.len() > TOKEN_BYTES_MAX || self.tokens > TOKENS_MAX {
            return Step::Refused(Refusal::TooLarge);
        }
        let stepped = match state {
            State::Start => self.start(token, now, random),
            State::MechanismChosen(spnego) => NegTokenResp::parse(token)
                .and_then(|response| response.token.ok_or(Malformed::SPNEGO.into()))
                .and_then(|token| self.challenge(token, Some(spnego), now, random)),
            State::ChallengeSent(challenged, spnego) => {
                self.finish(challenged, spnego, token).map(Step::Done)
            }
            State::Finished => Err(Refusal::Finished),
        };
        stepped.unwrap_or_else(Step::Refused)
    }

    fn start(&mut self, token: &[u8], now: FileTime, random: Random<'_>) -> Result<Step, Refusal> {
        if token.starts_with(ntlm::SIGNATURE) {
            return self.challenge(token, None, now, random);
        }
        let init = NegTokenInit::parse(token)?;
        let (Mechanism::Ntlm, is_first) = init.choose()?;
        let spnego = Spnego { mechanisms: init.mechanisms.to_vec(), is_preferred: is_first };
        match init.token.filter(|_| is_first) {
            Some(token) => self.challenge(token, Some(spnego), now, random),
            None => {
                let token = spnego.reply(None);
                self.state = State::MechanismChosen(spnego);
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
        self.state = State::ChallengeSent(challenged, spnego);
        Ok(Step::Continue(token))
    }

    fn finish(
        &self,
        challenged: PendingChallenge,
        spnego: Option<Spnego>,
        token: &[u8],
    ) -> Result<Accepted, Refusal> {
        let (account, keys, token) = match spnego {
            None => {
                let (account, keys) = challenged.finish(&self.authority, self.reached_at, token)?;
                (account, keys, Vec::new())
            }
            Some(spnego) => {
                let response = NegTokenResp::parse(token)?;
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
    /// The response that carries an intermediate mechanism token.
    fn reply(&self, token: Option<&[u8]>) -> Vec<u8> {
        let state = if self.is_preferred { NegState::AcceptIncomplete } else { NegState::RequestMic };
        NegTokenResp { state: Some(state), mechanism: Some(Mechanism::Ntlm), token, mic: None }.to_bytes()
    }

    /// Checks the client's MIC over its list of mechanisms and returns the last token. The MIC is mandatory if the
    /// client's preferred mechanism was not chosen, and must always be valid (RFC 4178 §5).
    fn finish(&self, keys: &Keys, mic: Option<&[u8]>) -> Result<Vec<u8>, Refusal> {
        let is_right = mic.map(|mic| keys.verify(Direction::ClientToServer, &self.mechanisms, mic));
        match is_right {
            Some(false) => return Err(Refusal::Tampered),
            None if !self.is_preferred => return Err(Refusal::NoMic),
            Some(true) | None => {}
        }
        let ours = mic.map(|_| keys.sign(Direction::ServerToClient, &self.mechanisms));
        let mic = ours.as_ref().map(|mic| &mic[..]);
        Ok(NegTokenResp { state: Some(NegState::AcceptCompleted), mic, ..NegTokenResp::default() }.to_bytes())
    }
}
