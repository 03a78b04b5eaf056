//! The server's side of the three messages.

use super::flags::Flags;
use super::keys::{ResponseKey, rc4k, verify_mic};
use super::message::{Authenticate, Challenge, Mic, Negotiate};
use super::response::Ntlmv2Response;
use super::{Keys, REQUIRED, av_pairs};
use crate::authority::{Account, Authority, MicPolicy, Random};
use crate::names::{folded, from_utf16, utf16};
use crate::refusal::{Malformed, Refusal};
use crate::resolver::{Identity, Resolver};
use crate::secret::NtHash;
use crate::time::FileTime;
use std::net::IpAddr;

/// Service classes of SMB target names.
const SERVICES: [&str; 2] = ["cifs", "host"];

/// An exchange whose challenge was sent.
pub(crate) struct PendingChallenge {
    negotiate: Vec<u8>,
    message: Vec<u8>,
    challenge: [u8; 8],
    sent_time: FileTime,
    flags: Flags,
}

/// Answers a NEGOTIATE.
pub(crate) fn challenge(
    authority: &Authority,
    negotiate: &[u8],
    now: FileTime,
    random: Random<'_>,
) -> Result<PendingChallenge, Refusal> {
    let wanted = Negotiate::parse(negotiate)?.flags;
    if !wanted.contains(REQUIRED) {
        return Err(Refusal::Weak("the client does not offer it"));
    }
    let flags =
        wanted.intersection(Flags::OFFERED).union(Flags::TARGET_INFO).union(Flags::TARGET_TYPE_SERVER);
    let mut challenge = [0; 8];
    random(&mut challenge);
    let (target, target_info) =
        (utf16(&authority.names.netbios), av_pairs::for_challenge(&authority.names, now));
    let message = Challenge { flags, challenge, target: &target, target_info: &target_info }.to_bytes();
    Ok(PendingChallenge { negotiate: negotiate.to_vec(), message, challenge, sent_time: now, flags })
}

impl PendingChallenge {
    pub(crate) fn message(&self) -> &[u8] {
        &self.message
    }

    /// Checks the AUTHENTICATE of a client that connected to `reached_at`.
    pub(crate) fn finish(
        self,
        authority: &Authority,
        reached_at: Option<IpAddr>,
        message: &[u8],
    ) -> Result<(Account, Keys), Refusal> {
        let authenticate = Authenticate::parse(message)?;
        if authenticate.user.is_empty() && authenticate.nt.is_empty() {
            // Samba's anonymous clients drop session security, which would prove nothing here.
            return self.anonymous(authority, &authenticate);
        }
        if !authenticate.flags.contains(REQUIRED) {
            return Err(Refusal::Weak("the client withdraws a flag that it offered"));
        }
        let response = Ntlmv2Response::parse(authenticate.nt)?;
        let (identity, base) = self.verify_proof(authority, &authenticate, &response)?;
        let keys = self.derive_keys(&authenticate, base)?;
        self.check_mic(authority, &response, message, &keys)?;
        check_target(authority, reached_at, &response)?;
        Ok((Account::User(identity), keys))
    }

    /// Accepts a null session: its responses are empty, the LM response perhaps one zero (MS-NLMP §3.2.5.1.2).
    fn anonymous(
        &self,
        authority: &Authority,
        message: &Authenticate<'_>,
    ) -> Result<(Account, Keys), Refusal> {
        if !authority.null_sessions || !matches!(message.lm, [] | [0]) {
            return Err(Refusal::Anonymous);
        }
        Ok((Account::Anonymous, self.derive_keys(message, [0; 16])?))
    }

    /// Verifies the response and returns the user with its `SessionBaseKey`. An unknown user costs the same
    /// computation. Hash and identity come from one snapshot: a mapping may change in between.
    fn verify_proof(
        &self,
        authority: &Authority,
        message: &Authenticate<'_>,
        response: &Ntlmv2Response<'_>,
    ) -> Result<(Identity, [u8; 16]), Refusal> {
        let (name, domain) = (from_utf16(message.user)?, from_utf16(message.domain)?);
        let accounts = authority.accounts.load();
        let stored = accounts.nt_hash(&name, &domain);
        let hash = stored.unwrap_or(NtHash::from_bytes([0; 16]));
        let key = ResponseKey::new(&hash, &name, message.domain);
        let is_right = key.verify(&self.challenge, response.temp, response.proof);
        let base = key.session_base_key(response.proof);
        if !(is_right & stored.is_some()) {
            return Err(Refusal::WrongCredentials);
        }
        let identity = accounts.identity(&name, &domain).map_err(|_| Refusal::WrongCredentials)?;
        Ok((identity, base))
    }

    /// MS-NLMP §3.2.5.1.2: uses the client's own key, if one is exchanged.
    fn derive_keys(&self, message: &Authenticate<'_>, base: [u8; 16]) -> Result<Keys, Refusal> {
        let flags = message.flags.intersection(self.flags);
        let exported = if flags.contains(Flags::KEY_EXCH) {
            rc4k(&base, message.session_key.try_into().map_err(|_| Malformed::KEY)?)
        } else {
            base
        };
        Ok(Keys { exported, flags })
    }

    /// The proof covers the announcement of a MIC, so only the client can omit it. A client also omits it if an
    /// attacker removed the time from the CHALLENGE. That is detected, because the client repeats the time it received.
    fn check_mic(
        &self,
        authority: &Authority,
        response: &Ntlmv2Response<'_>,
        message: &[u8],
        keys: &Keys,
    ) -> Result<(), Refusal> {
        if !response.pairs.has_mic() {
            let has_sent_time = response.pairs.timestamp == Some(self.sent_time.0.to_le_bytes());
            return match authority.mic {
                MicPolicy::Always => Err(Refusal::NoMic),
                MicPolicy::Announced if has_sent_time => Ok(()),
                MicPolicy::Announced => Err(Refusal::Tampered),
            };
        }
        let mic = Mic::parse(message)?;
        let messages = [&*self.negotiate, &self.message, &mic.zeroed];
        if verify_mic(&keys.exported, messages, &mic.value) { Ok(()) } else { Err(Refusal::Tampered) }
    }
}

/// Compares the client's target name with this service. Detects relays of a response that was meant for another server.
fn check_target(
    authority: &Authority,
    reached_at: Option<IpAddr>,
    response: &Ntlmv2Response<'_>,
) -> Result<(), Refusal> {
    let Some(target) = response.pairs.target_name.filter(|target| !target.is_empty()) else { return Ok(()) };
    let target = from_utf16(target)?;
    let (service, host) = target.split_once('/').unwrap_or(("", &target));
    let is_service = SERVICES.iter().any(|name| name.eq_ignore_ascii_case(service));
    let hosts = &authority.target_names;
    let is_host = hosts.is_empty()
        || hosts.iter().any(|name| folded(name) == folded(host))
        || reached_at.is_some_and(|address| parse_host_address(host) == Some(address));
    if is_service && is_host { Ok(()) } else { Err(Refusal::WrongTarget(target)) }
}

/// Parses a host name that is an address: IPv6 also in brackets, and in Windows' `ipv6-literal.net` form.
fn parse_host_address(host: &str) -> Option<IpAddr> {
    const IPV6: &str = ".ipv6-literal.net";
    let host = host.to_ascii_lowercase();
    if let Some(literal) = host.strip_suffix(IPV6) {
        return literal.replace('-', ":").parse().ok();
    }
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    bare.unwrap_or(&host).parse().ok()
}
