//! The server's side of the three messages.

use super::answer::Answer;
use super::flags::Flags;
use super::keys::{ResponseKey, rc4k, verify_mic};
use super::message::{Authenticate, Challenge, Mic, Negotiate};
use super::{Keys, REQUIRED, pairs};
use crate::authority::{Account, Authority, MicPolicy, Random};
use crate::names::{folded, from_utf16, utf16};
use crate::refusal::{Malformed, Refusal};
use crate::resolver::{Identity, Resolver};
use crate::secret::NtHash;
use crate::time::FileTime;
use std::net::IpAddr;

/// Names of services by which clients of SMB ask for one.
const SERVICES: [&str; 2] = ["cifs", "host"];

/// An exchange in which a challenge was sent.
pub(crate) struct Challenged {
    negotiate: Vec<u8>,
    message: Vec<u8>,
    challenge: [u8; 8],
    /// What the server has said the time is.
    time: FileTime,
    flags: Flags,
}

/// Answers a NEGOTIATE.
pub(crate) fn challenge(
    authority: &Authority,
    negotiate: &[u8],
    now: FileTime,
    random: Random<'_>,
) -> Result<Challenged, Refusal> {
    let wanted = Negotiate::parse(negotiate)?.flags;
    if !wanted.has(REQUIRED) {
        return Err(Refusal::Weak("the client does not offer it"));
    }
    let flags = wanted.within(Flags::OFFERED).and(Flags::TARGET_INFO).and(Flags::TARGET_TYPE_SERVER);
    let mut challenge = [0; 8];
    random(&mut challenge);
    let (target, target_info) = (utf16(&authority.names.netbios), pairs::of_server(&authority.names, now));
    let message = Challenge { flags, challenge, target: &target, target_info: &target_info }.to_bytes();
    Ok(Challenged { negotiate: negotiate.to_vec(), message, challenge, time: now, flags })
}

impl Challenged {
    /// The CHALLENGE.
    pub(crate) fn message(&self) -> &[u8] {
        &self.message
    }

    /// Checks an AUTHENTICATE that has come to this address.
    pub(crate) fn finish(
        self,
        authority: &Authority,
        reached_at: Option<IpAddr>,
        message: &[u8],
    ) -> Result<(Account, Keys), Refusal> {
        let authenticate = Authenticate::parse(message)?;
        if authenticate.user.is_empty() && authenticate.nt.is_empty() {
            // Where nothing is proven, Samba takes back session security.
            return self.anonymous(authority, &authenticate);
        }
        if !authenticate.flags.has(REQUIRED) {
            return Err(Refusal::Weak("the client takes back what it has offered"));
        }
        let answer = Answer::parse(authenticate.nt)?;
        let (identity, base) = self.check(authority, &authenticate, &answer)?;
        let keys = self.keys(&authenticate, base)?;
        self.check_mic(authority, &answer, message, &keys)?;
        check_target(authority, reached_at, &answer)?;
        Ok((Account::User(identity), keys))
    }

    /// A client without a name: its answers are empty, that of LM perhaps one zero (MS-NLMP §3.2.5.1.2).
    fn anonymous(
        &self,
        authority: &Authority,
        message: &Authenticate<'_>,
    ) -> Result<(Account, Keys), Refusal> {
        if !authority.null_sessions || !matches!(message.lm, [] | [0]) {
            return Err(Refusal::Anonymous);
        }
        Ok((Account::Anonymous, self.keys(message, [0; 16])?))
    }

    /// A user whose answer is right, and its `SessionBaseKey`. For somebody unknown all the same is computed. The password and whose it
    /// is are of one moment: the name may become another user's.
    fn check(
        &self,
        authority: &Authority,
        message: &Authenticate<'_>,
        answer: &Answer<'_>,
    ) -> Result<(Identity, [u8; 16]), Refusal> {
        let (name, domain) = (from_utf16(message.user)?, from_utf16(message.domain)?);
        let accounts = authority.accounts.load();
        let known = accounts.nt_hash(&name, &domain);
        let hash = known.unwrap_or(NtHash::from_bytes([0; 16]));
        let key = ResponseKey::new(&hash, &name, message.domain);
        let is_right = key.verify(&self.challenge, answer.temp, answer.proof);
        let base = key.session_base_key(answer.proof);
        if !(is_right & known.is_some()) {
            return Err(Refusal::WrongCredentials);
        }
        let identity = accounts.identity(&name, &domain).map_err(|_| Refusal::WrongCredentials)?;
        Ok((identity, base))
    }

    /// MS-NLMP §3.2.5.1.2: the client's own key, if one is exchanged.
    fn keys(&self, message: &Authenticate<'_>, base: [u8; 16]) -> Result<Keys, Refusal> {
        let flags = message.flags.within(self.flags);
        let exported = if flags.has(Flags::KEY_EXCH) {
            rc4k(&base, message.session_key.try_into().map_err(|_| Malformed::KEY)?)
        } else {
            base
        };
        Ok(Keys { exported, flags })
    }

    /// Whether there is a MIC is covered by the proof, so nobody but the client can have left it out. It does so as well if
    /// somebody has taken the time out of its CHALLENGE; that shows, because a client repeats what it was told.
    fn check_mic(
        &self,
        authority: &Authority,
        answer: &Answer<'_>,
        message: &[u8],
        keys: &Keys,
    ) -> Result<(), Refusal> {
        if !answer.pairs.has_mic() {
            let was_told = answer.pairs.timestamp == Some(self.time.0.to_le_bytes());
            return match authority.mic {
                MicPolicy::Always => Err(Refusal::NoMic),
                MicPolicy::Announced if was_told => Ok(()),
                MicPolicy::Announced => Err(Refusal::Tampered),
            };
        }
        let mic = Mic::of(message)?;
        let messages = [&*self.negotiate, &self.message, &mic.zeroed];
        if verify_mic(&keys.exported, messages, &mic.value) { Ok(()) } else { Err(Refusal::Tampered) }
    }
}

/// Who relays the answer of a client that talks to somebody else is found out by whom the client says it talks to.
fn check_target(
    authority: &Authority,
    reached_at: Option<IpAddr>,
    answer: &Answer<'_>,
) -> Result<(), Refusal> {
    let Some(target) = answer.pairs.target_name.filter(|target| !target.is_empty()) else { return Ok(()) };
    let target = from_utf16(target)?;
    let (service, host) = target.split_once('/').unwrap_or(("", &target));
    let is_service = SERVICES.iter().any(|name| name.eq_ignore_ascii_case(service));
    let hosts = &authority.target_names;
    let is_host = hosts.is_empty()
        || hosts.iter().any(|name| folded(name) == folded(host))
        || reached_at.is_some_and(|address| address_of(host) == Some(address));
    if is_service && is_host { Ok(()) } else { Err(Refusal::OtherTarget(target)) }
}

/// The address that a host is called by, if it is: those of IPv6 also in brackets, and as Windows has them in names.
fn address_of(host: &str) -> Option<IpAddr> {
    const IPV6: &str = ".ipv6-literal.net";
    let host = host.to_ascii_lowercase();
    if let Some(literal) = host.strip_suffix(IPV6) {
        return literal.replace('-', ":").parse().ok();
    }
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    bare.unwrap_or(&host).parse().ok()
}
