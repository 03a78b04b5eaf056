//! What a client might try that has read the code: messages made by hand, without SPNEGO.

use super::answer::temp;
use super::flags::Flags;
use super::keys::{ResponseKey, mic, rc4k};
use super::message::{Authenticate, Challenge, Mic, Negotiate};
use super::pairs;
use crate::names::utf16;
use crate::tests::{NOW, accounts, authority, counting};
use crate::*;
use std::sync::Arc;

const OFFER: Flags = Flags::OFFERED.and(Flags::TARGET_INFO);

/// A client that does what a test wants.
struct Forger {
    negotiate: Flags,
    authenticate: Flags,
    password: &'static str,
    /// Its pairs, made of the server's.
    pairs: fn(&[u8]) -> Vec<u8>,
    /// The MIC that it gives, made of the right one.
    mic: fn([u8; 16]) -> [u8; 16],
    /// What it does with its message before the MIC.
    change: fn(&mut Authenticate<'_>),
}

impl Forger {
    fn honest() -> Self {
        Self {
            negotiate: OFFER,
            authenticate: OFFER,
            password: "secret",
            pairs: |server| pairs::of_client(server, "cifs/files").unwrap(),
            mic: |mic| mic,
            change: |_| {},
        }
    }

    /// Like the kernel of Linux: no MIC, and nothing that says there is one.
    fn without_mic() -> Self {
        Self { pairs: <[u8]>::to_vec, mic: |_| [0; 16], ..Self::honest() }
    }

    fn against(&self, authority: Authority) -> Step {
        let mut acceptor = Acceptor::new(Arc::new(authority));
        let mut random = counting();
        let negotiate = Negotiate { flags: self.negotiate }.to_bytes();
        match acceptor.step(&negotiate, NOW, &mut random) {
            Step::Continue(challenge) => {
                acceptor.step(&self.answer(&negotiate, &challenge), NOW, &mut random)
            }
            other => other,
        }
    }

    fn answer(&self, negotiate: &[u8], challenge_bytes: &[u8]) -> Vec<u8> {
        let challenge = Challenge::parse(challenge_bytes).unwrap();
        let key = ResponseKey::new(&NtHash::of_password(self.password), "alice", &utf16("HOME"));
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
        Mic::put(&mut bytes, (self.mic)(mic));
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
fn ntlm_without_spnego_is_answered_without() {
    assert_eq!(session_key(Forger::honest().against(authority())).as_bytes(), [7; 16]);
}

#[test]
fn a_proof_is_of_one_password_and_one_challenge() {
    assert_eq!(Forger { password: "Secret", ..Forger::honest() }.refusal(), Refusal::WrongCredentials);
    // What was right for one challenge is wrong for another.
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
    let answer = forger.answer(&negotiate, &challenge_first);
    let replayed = second.step(&answer, NOW, &mut counting());
    assert_eq!(replayed, Step::Refused(Refusal::WrongCredentials));
    assert!(matches!(first.step(&answer, NOW, &mut counting()), Step::Done(_)));
    assert_eq!(first.step(&answer, NOW, &mut counting()), Step::Refused(Refusal::Finished));
}

#[test]
fn a_mic_that_is_announced_must_be_right() {
    for policy in [MicPolicy::Announced, MicPolicy::Always] {
        let against = |forger: Forger| forger.against(Authority { mic: policy, ..authority() });
        let zeros = Forger { mic: |_| [0; 16], ..Forger::honest() };
        assert_eq!(against(zeros), Step::Refused(Refusal::Tampered));
        let one_bit = Forger { mic: |mic| mic.map(|byte| byte ^ 1), ..Forger::honest() };
        assert_eq!(against(one_bit), Step::Refused(Refusal::Tampered));
    }
    // Cut off before the MIC, with the payload in its place: `MsvAvFlags` still says that there is one.
    let negotiate = Negotiate { flags: OFFER }.to_bytes();
    let mut acceptor = Acceptor::new(Arc::new(announced()));
    let Step::Continue(challenge) = acceptor.step(&negotiate, NOW, &mut counting()) else {
        panic!("no challenge")
    };
    let mut answer = Forger::honest().answer(&negotiate, &challenge);
    answer.drain(72..88);
    for at in [12, 20, 28, 36, 44, 52] {
        let offset = u32::from_le_bytes(answer[at + 4..at + 8].try_into().unwrap()) - 16;
        answer[at + 4..at + 8].copy_from_slice(&offset.to_le_bytes());
    }
    assert!(matches!(acceptor.step(&answer, NOW, &mut counting()), Step::Refused(Refusal::Malformed(_))));
}

#[test]
fn a_client_without_a_mic_is_let_in_only_if_that_is_allowed() {
    assert_eq!(Forger::without_mic().refusal(), Refusal::NoMic);
    session_key(Forger::without_mic().against(announced()));
}

/// Clients give a MIC if the server tells them the time. Who takes that out of the CHALLENGE is found out.
#[test]
fn who_takes_the_reason_for_a_mic_away_is_found_out() {
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
fn who_takes_the_announcement_of_a_mic_away_breaks_the_proof() {
    // The client's own bytes, but for `MsvAvFlags`, which is made another pair of the same length.
    let negotiate = Negotiate { flags: OFFER }.to_bytes();
    let mut acceptor = Acceptor::new(Arc::new(announced()));
    let Step::Continue(challenge) = acceptor.step(&negotiate, NOW, &mut counting()) else {
        panic!("no challenge")
    };
    let mut answer = Forger::honest().answer(&negotiate, &challenge);
    let flags = [6, 0, 4, 0, 2, 0, 0, 0];
    let at = answer.windows(8).position(|window| window == flags).unwrap();
    answer[at] = 0x0a;
    assert_eq!(acceptor.step(&answer, NOW, &mut counting()), Step::Refused(Refusal::WrongCredentials));
}

#[test]
fn a_mic_is_over_the_messages_that_were_sent() {
    // Somebody between has changed the NEGOTIATE: the client's MIC is over its own.
    let sent = Negotiate { flags: OFFER }.to_bytes();
    let arrived = Negotiate { flags: Flags(OFFER.0 & !Flags::SIGN.0) }.to_bytes();
    let mut acceptor = Acceptor::new(Arc::new(authority()));
    let Step::Continue(challenge) = acceptor.step(&arrived, NOW, &mut counting()) else {
        panic!("no challenge")
    };
    let answer = Forger::honest().answer(&sent, &challenge);
    assert_eq!(acceptor.step(&answer, NOW, &mut counting()), Step::Refused(Refusal::Tampered));
    // And the same of its AUTHENTICATE.
    let workstation = Forger { change: |message| message.workstation = b"W\0", ..Forger::honest() };
    session_key(workstation.against(authority()));
    let mut acceptor = Acceptor::new(Arc::new(authority()));
    let Step::Continue(challenge) = acceptor.step(&sent, NOW, &mut counting()) else {
        panic!("no challenge")
    };
    let mut answer = workstation.answer(&sent, &challenge);
    let at = answer.windows(2).rposition(|window| window == b"W\0").unwrap();
    answer[at] = b'V';
    assert_eq!(acceptor.step(&answer, NOW, &mut counting()), Step::Refused(Refusal::Tampered));
}

#[test]
fn less_than_ntlmv2_with_its_protections_is_refused() {
    for flag in [Flags::UNICODE, Flags::EXTENDED_SESSIONSECURITY, Flags::NEGOTIATE_128] {
        let without = Flags(OFFER.0 & !flag.0);
        let offered = Forger { negotiate: without, ..Forger::honest() };
        assert!(matches!(offered.refusal(), Refusal::Weak(_)), "{flag:?}");
        let taken_back = Forger { authenticate: without, ..Forger::honest() };
        assert!(matches!(taken_back.refusal(), Refusal::Weak(_)), "{flag:?}");
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
fn without_a_key_exchange_the_key_is_that_of_the_answer() {
    let flags = Flags(OFFER.0 & !Flags::KEY_EXCH.0);
    let forger = Forger { negotiate: flags, authenticate: flags, ..Forger::without_mic() };
    assert_ne!(session_key(forger.against(announced())).as_bytes(), [7; 16]);
    // A key that was not negotiated is none.
    let forger = Forger { negotiate: flags, ..Forger::without_mic() };
    assert_ne!(session_key(forger.against(announced())).as_bytes(), [7; 16]);
    let short = Forger { change: |message| message.session_key = &[1; 15], ..Forger::honest() };
    assert!(short.refusal().is_malformed());
}

#[test]
fn null_sessions_are_an_outcome_of_their_own() {
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
    // Samba's clients take back what such a session has no use for; those who have a name may not.
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
    // An answer without a name, or a name without an answer, is none.
    let no_name = Forger { change: |message| message.user = &[], ..Forger::honest() };
    assert_eq!(no_name.against(allowed()), Step::Refused(Refusal::WrongCredentials));
    let no_answer = Forger { change: |message| message.nt = &[], ..Forger::honest() };
    assert!(matches!(no_answer.against(allowed()), Step::Refused(Refusal::Malformed(_))));
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
fn a_client_of_another_service_is_refused() {
    let http = Forger { pairs: |server| pairs::of_client(server, "HTTP/files").unwrap(), ..Forger::honest() };
    assert_eq!(http.refusal(), Refusal::OtherTarget("HTTP/files".to_owned()));
    let none = Forger { pairs: |server| pairs::of_client(server, "").unwrap(), ..Forger::honest() };
    session_key(none.against(authority()));
    let spelled =
        Forger { pairs: |server| pairs::of_client(server, "CIFS/FILES").unwrap(), ..Forger::honest() };
    session_key(spelled.against(authority()));
}

#[test]
fn the_name_that_is_proven_is_the_name_that_is_told() {
    // Bob's name in alice's message: the proof is of the name, too.
    let bob = Forger { change: |message| message.user = b"b\0o\0b\0", ..Forger::honest() };
    assert_eq!(bob.refusal(), Refusal::WrongCredentials);
    let elsewhere = Forger { change: |message| message.domain = b"O\0", ..Forger::honest() };
    assert_eq!(elsewhere.refusal(), Refusal::WrongCredentials);
    let half = Forger { change: |message| message.user = b"a\0l", ..Forger::honest() };
    assert!(half.refusal().is_malformed());
    assert!(accounts().nt_hash("bob", "").is_none());
}
