//! The client's side of the three messages, for load generators and tests.

use super::av_pairs::{self, AvPairs};
use super::flags::Flags;
use super::keys::{ResponseKey, mic, rc4k};
use super::message::{Authenticate, Challenge, Mic, Negotiate};
use super::response::temp;
use super::{Keys, REQUIRED};
use crate::authority::Random;
use crate::initiator::Credentials;
use crate::names::utf16;
use crate::refusal::Refusal;
use crate::time::FileTime;

const WANTED: Flags = Flags::OFFERED.union(Flags::TARGET_INFO);

pub(crate) fn negotiate() -> Vec<u8> {
    Negotiate { flags: WANTED }.to_bytes()
}

/// Answers a CHALLENGE. Returns the AUTHENTICATE and the derived keys.
pub(crate) fn authenticate(
    credentials: &Credentials,
    target: &str,
    challenge_bytes: &[u8],
    now: FileTime,
    random: Random<'_>,
) -> Result<(Vec<u8>, Keys), Refusal> {
    let challenge = Challenge::parse(challenge_bytes)?;
    let flags = challenge.flags.intersection(WANTED);
    if !flags.contains(REQUIRED.union(Flags::KEY_EXCH)) {
        return Err(Refusal::Weak("the server does not offer it"));
    }
    let (mut client_challenge, mut exported) = ([0; 8], [0; 16]);
    random(&mut client_challenge);
    random(&mut exported);
    let time = AvPairs::parse(challenge.target_info)?
        .timestamp
        .map_or(now, |time| FileTime(u64::from_le_bytes(time)));
    let temp = temp(time, client_challenge, &av_pairs::for_response(challenge.target_info, target)?);
    let domain = utf16(&credentials.domain);
    let key = ResponseKey::new(&credentials.nt_hash, &credentials.user, &domain);
    let proof = key.proof(&challenge.challenge, &temp);
    let message = Authenticate {
        flags,
        lm: &[0; 24],
        nt: &[&proof[..], &temp].concat(),
        domain: &domain,
        user: &utf16(&credentials.user),
        workstation: &[],
        session_key: &rc4k(&key.session_base_key(&proof), exported),
    };
    let mut message = message.to_bytes();
    let mic = mic(&exported, [&negotiate(), challenge_bytes, &message]);
    Mic::write_to(&mut message, mic);
    Ok((message, Keys { exported, flags }))
}
