//! Attacks with handmade messages, without SPNEGO, by an attacker that knows this code.

use super::av_pairs;
use super::flags::Flags;
use super::keys::{ResponseKey, mic, rc4k};
use super::message::{Authenticate, Challenge, Mic, Negotiate};
use super::response::temp;
use crate::names::utf16;
use crate::tests::{NOW, accounts, authority, counting};
use crate::*;
use std::sync::Arc;

const OFFER: Flags = Flags::OFFERED.union(Flags::TARGET_INFO);

/// A client that deviates from the protocol as a test needs.
struct Forger {
    negotiate: Flags,
    authenticate: Flags,
    password: &'static str,
    /// Derives the client's pairs from the server's.
    pairs: fn(&[u8]) -> Vec<u8>,
    /// Derives the MIC to send from the correct one.
    mic: fn([u8; 16]) -> [u8; 16],
    /// Changes the AUTHENTICATE before its MIC is computed.
    change: fn(&mut Authenticate<'_>),
}

impl Forger {
    fn honest() -> Self {
        Self {
            negotiate: OFFER,
            authenticate: OFFER,
            password: "secret",
            pairs: |server| av_pairs::for_response(server, "cifs/files").unwrap(),
            mic: |mic| mic,
            change: |_| {},
        }
    }

    /// Like the Linux kernel: no MIC, and no announcement of one.
    fn without_mic() -> Self {
        Self { pairs: <[u8]>::to_vec, mic: |_| [0; 16], ..Self::honest() }
    }

    fn against(&self, authority: Authority) -> Step {
        let mut acceptor = Acceptor::new(Arc::new(authority));
        let mut random = counting();
        let negotiate = Negotiate { flags: self.negotiate }.to_bytes();
        match acceptor.step(&negotiate, NOW, &mut random) {
            Step::Continue(challenge) => {
                acceptor.step(&self.response(&negotiate, &challenge), NOW, &mut random)
            }
            other => other,
        }
    }

    fn response(&self, negotiate: &[u8], challenge_bytes: &[u8]) -> Vec<u8> {
        let challenge = Challenge::parse(challenge_bytes).unwrap();
        let key = ResponseKey::new(&NtHash::from_password(self.password), "alice", &utf16("HOME"));
        let temp = temp(NOW, [9; 8], &(self.pairs)(challenge.target_info));
        let proof = key.proof(&challenge.challenge, &temp);
        let exported = [7; 16];
        let (nt, user, domain) = ([&proof[..], &temp].concat(), utf16("alice"), utf16("HOME"));
        let session_key = rc4k(&key.session_base_key(&proof), exported);
        let mut message = Authenticate {
            flags: self.authenticate,
            lm: &[],
            nt: &nt,
            domain: &domain,
            user: &user,
            workstation: &[],
            session_key: &session_key,
        };
        (self.change)(&mut message);
        let mut bytes = message.to_bytes();
        let mic = mic(&exported, [negotiate, challenge_bytes, &bytes]);
        Mic::write_to(&mut bytes, (self.mic)(mic));
        bytes
    }

    fn refusal(&self) -> Refusal {
        match self.against(authority()) {
            Step::Refused(refusal) => refusal,
            other => panic!("{other:?}"),
        }
    }
}

fn announced() -> Authority {
    Authority { mic: MicPolicy::Announced, ..authority() }
}

fn session_key(step: Step) -> SessionKey {
    match step {
        Step::Done(accepted) => {
            assert!(accepted.token.is_empty());
            accepted.session_key
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn bare_ntlm_gets_bare_ntlm_reply() {
    assert_eq!(session_key(Forger::honest().against(authority())).as_bytes(), [7; 16]);
}

#[test]
fn proof_covers_password_and_challenge() {
    assert_eq!(Forger { password: "Secret", ..Forger::honest() }.refusal(), Refusal::WrongCredentials);
    // A response to one challenge is invalid for another.
    let forger = Forger::honest();
    let negotiate = Negotiate { flags: OFFER }.to_bytes();
    let mut random = counting();
    let mut challenge = || {
        let mut acceptor = Acceptor::new(Arc::new(authority()));
        let Step::Continue(challenge) = acceptor.step(&negotiate, NOW, &mut random) else {
            panic!("no challenge")
        };
        (acceptor, challenge)
    };
    let ((mut first, challenge_first), (mut second, _)) = (challenge(), challenge());
    let response = forger.response(&negotiate, &challenge_first);
    let replayed = second.step(&response, NOW, &mut counting());
    assert_eq!(replayed, Step::Refused(Refusal::WrongCredentials));
    assert!(matches!(first.step(&response, NOW, &mut counting()), Step::Done(_)));
    assert_eq!(first.step(&response, NOW, &mut counting()), Step::Refused(Refusal::Finished));
}

#[test]
fn announced_mic_must_match() {
    for policy in [MicPolicy::Announced, MicPolicy::Always] {
        let against = |forger: Forger| forger.against(Authority { mic: policy, ..authority() });
        let zeros = Forger { mic: |_| [0; 16], ..Forger::honest() };
        assert_eq!(against(zeros), Step::Refused(Refusal::Tampered));
        let one_bit = Forger { mic: |mic| mic.map(|byte| byte ^ 1), ..Forger::honest() };
        assert_eq!(against(one_bit), Step::Refused(Refusal::Tampered));
    }
    // The MIC is cut out and the payload moves into its place, while `MsvAvFlags` still announces a MIC.
    let negotiate = Negotiate { flags: OFFER }.to_bytes();
    let mut acceptor = Acceptor::new(Arc::new(announced()));
    let Step::Continue(challenge) = acceptor.step(&negotiate, NOW, &mut counting()) else {
        panic!("no challenge")
    };
    let mut response = Forger::honest().response(&negotiate, &challenge);
    response.drain(72..88);
    for at in [12, 20, 28, 36, 44, 52] {
        let offset = u32::from_le_bytes(response[at + 4..at + 8].try_into().unwrap()) - 16;
        response[at + 4..at + 8].copy_from_slice(&offset.to_le_bytes());
    }
    assert!(matches!(acceptor.step(&response, NOW, &mut counting()), Step::Refused(Refusal::Malformed(_))));
}

#[test]
fn client_without_mic_needs_announced_policy() {
    assert_eq!(Forger::without_mic().refusal(), Refusal::NoMic);
    session_key(Forger::without_mic().against(announced()));
}

/// Clients send a MIC if the CHALLENGE has a time. Removing the time is detected.
#[test]
fn removed_or_changed_time_is_detected() {
    fn without_time(server: &[u8]) -> Vec<u8> {
        let at = server.windows(4).position(|head| head == [7, 0, 8, 0]).unwrap();
        [&server[..at], &server[at + 12..]].concat()
    }
    fn another_time(server: &[u8]) -> Vec<u8> {
        let at = server.windows(4).position(|head| head == [7, 0, 8, 0]).unwrap();
        let mut pairs = server.to_vec();
        pairs[at + 4] ^= 1;
        pairs
    }
    for pairs in [without_time, another_time] {
        let forger = Forger { pairs, ..Forger::without_mic() };
        assert_eq!(forger.against(announced()), Step::Refused(Refusal::Tampered));
        assert_eq!(forger.refusal(), Refusal::NoMic);
    }
}

#[test]
fn removed_mic_announcement_breaks_the_proof() {
    // The client's own bytes, with `MsvAvFlags` replaced by another pair of the same length.
    let negotiate = Negotiate { flags: OFFER }.to_bytes();
    let mut acceptor = Acceptor::new(Arc::new(announced()));
    let Step::Continue(challenge) = acceptor.step(&negotiate, NOW, &mut counting()) else {
        panic!("no challenge")
    };
    let mut response = Forger::honest().response(&negotiate, &challenge);
    let flags = [6, 0, 4, 0, 2, 0, 0, 0];
    let at = response.windows(8).position(|window| window == flags).unwrap();
    response[at] = 0x0a;
    assert_eq!(acceptor.step(&response, NOW, &mut counting()), Step::Refused(Refusal::WrongCredentials));
}

#[test]
fn mic_detects_changed_negotiate_and_authenticate() {
    // An attacker has changed the NEGOTIATE: the client's MIC covers the original.
    let sent = Negotiate { flags: OFFER }.to_bytes();
    let arrived = Negotiate { flags: Flags(OFFER.0 & !Flags::SIGN.0) }.to_bytes();
    let mut acceptor = Acceptor::new(Arc::new(authority()));
    let Step::Continue(challenge) = acceptor.step(&arrived, NOW, &mut counting()) else {
        panic!("no challenge")
    };
    let response = Forger::honest().response(&sent, &challenge);
    assert_eq!(acceptor.step(&response, NOW, &mut counting()), Step::Refused(Refusal::Tampered));
    // The same attack on the AUTHENTICATE.
    let workstation = Forger { change: |message| message.workstation = b"W\0", ..Forger::honest() };
    session_key(workstation.against(authority()));
    let mut acceptor = Acceptor::new(Arc::new(authority()));
    let Step::Continue(challenge) = acceptor.step(&sent, NOW, &mut counting()) else {
        panic!("no challenge")
    };
    let mut response = workstation.response(&sent, &challenge);
    let at = response.windows(2).rposition(|window| window == b"W\0").unwrap();
    response[at] = b'V';
    assert_eq!(acceptor.step(&response, NOW, &mut counting()), Step::Refused(Refusal::Tampered));
}

#[test]
fn flags_or_responses_below_ntlmv2_are_refused() {
    for flag in [Flags::UNICODE, Flags::EXTENDED_SESSIONSECURITY, Flags::NEGOTIATE_128] {
        let without = Flags(OFFER.0 & !flag.0);
        let offered = Forger { negotiate: without, ..Forger::honest() };
        assert!(matches!(offered.refusal(), Refusal::Weak(_)), "{flag:?}");
        let dropped = Forger { authenticate: without, ..Forger::honest() };
        assert!(matches!(dropped.refusal(), Refusal::Weak(_)), "{flag:?}");
    }
    let ntlmv1 = Forger { change: |message| message.nt = &[1; 24], ..Forger::honest() };
    assert!(matches!(ntlmv1.refusal(), Refusal::Weak(_)));
    let lm_alone = Forger {
        change: |message| {
            message.nt = &[];
            message.lm = &[1; 24];
        },
        ..Forger::honest()
    };
    assert!(lm_alone.refusal().is_malformed());
}

#[test]
fn session_key_without_key_exchange_is_base_key() {
    let flags = Flags(OFFER.0 & !Flags::KEY_EXCH.0);
    let forger = Forger { negotiate: flags, authenticate: flags, ..Forger::without_mic() };
    assert_ne!(session_key(forger.against(announced())).as_bytes(), [7; 16]);
    // A key that was not negotiated is ignored.
    let forger = Forger { negotiate: flags, ..Forger::without_mic() };
    assert_ne!(session_key(forger.against(announced())).as_bytes(), [7; 16]);
    let short = Forger { change: |message| message.session_key = &[1; 15], ..Forger::honest() };
    assert!(short.refusal().is_malformed());
}

#[test]
fn null_session_is_anonymous_only_if_allowed() {
    let nobody = Forger {
        change: |message| {
            (message.nt, message.user, message.domain) = (&[], &[], &[]);
            message.lm = &[0];
        },
        ..Forger::honest()
    };
    assert_eq!(nobody.refusal(), Refusal::Anonymous);
    let allowed = || Authority { null_sessions: true, ..authority() };
    let Step::Done(accepted) = nobody.against(allowed()) else { panic!("refused") };
    assert_eq!(accepted.account, Account::Anonymous);
    // Samba's anonymous clients drop session security. A client with a user name may not.
    let plain = Forger {
        change: |message| {
            (message.nt, message.user, message.domain) = (&[], &[], &[]);
            message.flags = Flags(message.flags.0 & !Flags::EXTENDED_SESSIONSECURITY.0);
        },
        ..Forger::honest()
    };
    assert_eq!(plain.refusal(), Refusal::Anonymous);
    assert!(
        matches!(plain.against(allowed()), Step::Done(accepted) if accepted.account == Account::Anonymous)
    );
    // A response without a name, or a name without a response, is not a null session.
    let no_name = Forger { change: |message| message.user = &[], ..Forger::honest() };
    assert_eq!(no_name.against(allowed()), Step::Refused(Refusal::WrongCredentials));
    let no_response = Forger { change: |message| message.nt = &[], ..Forger::honest() };
    assert!(matches!(no_response.against(allowed()), Step::Refused(Refusal::Malformed(_))));
    let with_lm = Forger {
        change: |message| {
            (message.nt, message.user) = (&[], &[]);
            message.lm = &[1; 24];
        },
        ..Forger::honest()
    };
    assert_eq!(with_lm.against(allowed()), Step::Refused(Refusal::Anonymous));
}

#[test]
fn other_service_target_is_refused() {
    let http =
        Forger { pairs: |server| av_pairs::for_response(server, "HTTP/files").unwrap(), ..Forger::honest() };
    assert_eq!(http.refusal(), Refusal::WrongTarget("HTTP/files".to_owned()));
    let none = Forger { pairs: |server| av_pairs::for_response(server, "").unwrap(), ..Forger::honest() };
    session_key(none.against(authority()));
    let upper_case =
        Forger { pairs: |server| av_pairs::for_response(server, "CIFS/FILES").unwrap(), ..Forger::honest() };
    session_key(upper_case.against(authority()));
}

#[test]
fn proof_covers_user_and_domain() {
    // Bob's name in alice's message: the proof covers the name, too.
    let bob = Forger { change: |message| message.user = b"b\0o\0b\0", ..Forger::honest() };
    assert_eq!(bob.refusal(), Refusal::WrongCredentials);
    let elsewhere = Forger { change: |message| message.domain = b"O\0", ..Forger::honest() };
    assert_eq!(elsewhere.refusal(), Refusal::WrongCredentials);
    let half = Forger { change: |message| message.user = b"a\0l", ..Forger::honest() };
    assert!(half.refusal().is_malformed());
    assert!(accounts().nt_hash("bob", "").is_none());
}
