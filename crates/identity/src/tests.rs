//! Whole exchanges between a client and a server.

use crate::der;
use crate::spnego::{Mechanism, NegState, NegTokenInit, NegTokenResp, mechanism_list};
use crate::*;
use std::sync::Arc;

pub(crate) const NOW: FileTime = FileTime(133_000_000_000_000_000);
const KERBEROS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02];

pub(crate) fn hex(digits: &str) -> Vec<u8> {
    digits
        .as_bytes()
        .chunks(2)
        .map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap())
        .collect()
}

/// A generator of the bytes 1, 2, 3, …
pub(crate) fn counting() -> impl FnMut(&mut [u8]) {
    let mut last = 0_u8;
    move |bytes| {
        for byte in bytes {
            last = last.wrapping_add(1);
            *byte = last;
        }
    }
}

/// Accounts of alice, whose password is `secret`, and of bob, who has none.
pub(crate) fn accounts() -> Accounts {
    let user = |name: &str, uid, password: Option<&str>| User {
        name: name.parse().unwrap(),
        uid,
        gid: 100,
        nt_hash: password.map(NtHash::from_password),
    };
    let users = vec![
        user("alice", 1000, Some("secret")),
        user("bob", 1001, None),
        user("Jürgen", 1002, Some("grün")),
    ];
    Accounts::empty(Sid::machine([1, 2, 3]), "FILES").with_entries(users, vec![], vec![], None).unwrap()
}

pub(crate) fn authority() -> Authority {
    Authority {
        names: ServerNames::for_host("files.example.org"),
        accounts: SharedAccounts::new(accounts()),
        null_sessions: false,
        mic: MicPolicy::Always,
        target_names: vec!["files".to_owned()],
    }
}

pub(crate) fn credentials(user: &str, password: &str) -> Credentials {
    Credentials { user: user.to_owned(), domain: "HOME".to_owned(), nt_hash: NtHash::from_password(password) }
}

/// Runs an exchange of `credentials` against `authority`. Returns the outcome with the client's key.
fn exchange(authority: Authority, credentials: Credentials) -> Result<(Accepted, SessionKey), Refusal> {
    let mut acceptor = Acceptor::new(Arc::new(authority));
    let mut client = Initiator::new(credentials, "files");
    let mut random = counting();
    let Step::Continue(token) = acceptor.step(&client.start(), NOW, &mut random) else {
        panic!("no challenge")
    };
    let token = client.step(&token, NOW, &mut random)?;
    match acceptor.step(&token, NOW, &mut random) {
        Step::Done(accepted) => client.finish(&accepted.token).map(|key| (accepted, key)),
        Step::Refused(refusal) => Err(refusal),
        Step::Continue(_) => panic!("one more token"),
    }
}

fn uid(accepted: &Accepted) -> u32 {
    let Account::User(identity) = &accepted.account else { panic!("the session is anonymous") };
    identity.credential.uid
}

#[test]
fn correct_password_authenticates() {
    let (accepted, key) = exchange(authority(), credentials("alice", "secret")).unwrap();
    assert_eq!(accepted.account, Account::User(accounts().identity("alice", "").unwrap()));
    assert_eq!((accepted.session_key.as_bytes().len(), &accepted.session_key), (16, &key));
    assert_eq!(uid(&accepted), 1000);
}

/// A mapping that changes to another user during an exchange does not change the authenticated user.
#[test]
fn mapping_change_during_exchange_keeps_the_proven_user() {
    let rule = |user: &str| {
        let user_of = |name: &str, uid, password| User {
            name: name.parse().unwrap(),
            uid,
            gid: 100,
            nt_hash: Some(NtHash::from_password(password)),
        };
        let users = vec![user_of("alice", 1000, "secret"), user_of("bob", 1001, "other")];
        let mapping = Mapping { windows: "HOME\\a.b".parse().unwrap(), user: user.parse().unwrap() };
        Accounts::empty(Sid::machine([1, 2, 3]), "FILES")
            .with_entries(users, vec![], vec![mapping], None)
            .unwrap()
    };
    let shared = SharedAccounts::new(rule("alice"));
    let authority = || Authority { accounts: shared.clone(), ..authority() };
    let (accepted, _) = exchange(authority(), credentials("a.b", "secret")).unwrap();
    shared.store(rule("bob"));
    assert_eq!(uid(&accepted), 1000);
    assert_eq!(exchange(authority(), credentials("a.b", "secret")).err(), Some(Refusal::WrongCredentials));
    let (accepted, _) = exchange(authority(), credentials("a.b", "other")).unwrap();
    assert_eq!(uid(&accepted), 1001);
}

/// The tokens that pyspnego 0.12.4 sent as `HOME\\Jürgen` to this acceptor with the random numbers and the time of
/// these tests. An independent implementation must produce the same bytes and keys.
const FROM_ANOTHER: [&str; 2] = [
    "604806062b0601050502a03e303ca00e300c060a2b06010401823702020aa22a04284e544c4d5353500001000000378208e20000\
     0000280000000000000028000000000c04000000000f",
    "a182017930820175a0030a0101a2820158048201544e544c4d53535000030000001800180058000000bc00bc0070000000080008\
     002c0100000c000c00340100000400040040010000100010004401000035828ae2000c04000000000fa122d9201dae498ff9a610\
     2d51cf1d3c000000000000000000000000000000000000000000000000a51fc1b9fd4245cb86bed1dff7322f7801010000000000\
     000080209bcb82d8017c4d2edadff16f720000000002000a00460049004c004500530001000a00460049004c0045005300040016\
     006500780061006d0070006c0065002e006f007200670003002200660069006c00650073002e006500780061006d0070006c0065\
     002e006f0072006700070008000080209bcb82d8010900140063006900660073002f00660069006c006500730006000400020000\
     00000000000000000048004f004d0045004a00fc007200670065006e0056004d00d7a131d07d1d0a4daa3119c0371b1c9da31204\
     1001000000ff50b8ab411bc83800000000",
];

#[test]
fn foreign_implementation_authenticates() {
    let mut acceptor = Acceptor::new(Arc::new(authority()));
    let mut random = counting();
    let first = acceptor.step(&hex(FROM_ANOTHER[0]), NOW, &mut random);
    assert!(matches!(first, Step::Continue(_)), "{first:?}");
    let Step::Done(accepted) = acceptor.step(&hex(FROM_ANOTHER[1]), NOW, &mut random) else {
        panic!("the password is right")
    };
    assert_eq!(uid(&accepted), 1002);
    assert_eq!(accepted.session_key.as_bytes(), hex("e7decee6340005a217d5caa00046fcd0"));
    assert_eq!(accepted.token, hex("a11b3019a0030a0100a3120410010000003e413679bfb3c98600000000"));
}

#[test]
fn user_name_ignores_case_and_allows_any_letter() {
    for name in ["ALICE", "Alice"] {
        assert!(exchange(authority(), credentials(name, "secret")).is_ok(), "{name}");
    }
    assert!(exchange(authority(), credentials("JÜRGEN", "grün")).is_ok());
    assert!(exchange(authority(), credentials("jürgen", "Grün")).is_err());
}

#[test]
fn wrong_password_and_unknown_user_fail_alike() {
    // The all-zero hash stands in for unknown users; it must not log anyone in.
    let zeros = Credentials { nt_hash: NtHash::from_bytes([0; 16]), ..credentials("carol", "") };
    let without = Credentials { nt_hash: NtHash::from_bytes([0; 16]), ..credentials("bob", "") };
    for credentials in [
        credentials("alice", "Secret"),
        credentials("alice", ""),
        credentials("carol", "secret"),
        credentials("bob", ""),
        zeros,
        without,
    ] {
        let who = credentials.user.clone();
        assert_eq!(exchange(authority(), credentials).err(), Some(Refusal::WrongCredentials), "{who}");
    }
}

#[test]
fn target_of_another_host_is_refused() {
    let others = Authority { target_names: vec!["other".to_owned()], ..authority() };
    let refusal = exchange(others, credentials("alice", "secret")).unwrap_err();
    assert_eq!(refusal, Refusal::WrongTarget("cifs/files".to_owned()));
    let any = Authority { target_names: vec![], ..authority() };
    assert!(exchange(any, credentials("alice", "secret")).is_ok());
}

/// The outcome for a client that connected to `address` and names `host` as its target.
fn calling(names: &[&str], address: &str, host: &str) -> Step {
    let target_names = names.iter().map(|name| (*name).to_owned()).collect();
    let authority = Arc::new(Authority { target_names, ..authority() });
    let mut acceptor = Acceptor::new(authority).reached_at(address.parse().unwrap());
    let (mut client, mut random) = (Initiator::new(credentials("alice", "secret"), host), counting());
    let Step::Continue(token) = acceptor.step(&client.start(), NOW, &mut random) else {
        panic!("no challenge")
    };
    let token = client.step(&token, NOW, &mut random).unwrap();
    acceptor.step(&token, NOW, &mut random)
}

#[test]
fn target_may_be_a_service_name_or_the_connected_address() {
    let names = ["files.example.org", "files"];
    let good = [
        ("192.0.2.5", "Files"),
        ("192.0.2.5", "FILES.example.ORG"),
        ("192.0.2.5", "192.0.2.5"),
        ("::ffff:192.0.2.5", "192.0.2.5"),
        ("2001:db8::5", "2001:DB8::5"),
        ("2001:db8::5", "[2001:db8::5]"),
        ("2001:db8::5", "2001-db8--5.ipv6-literal.net"),
    ];
    for (address, host) in good {
        assert!(matches!(calling(&names, address, host), Step::Done(_)), "{host}");
    }
    let bad = ["192.0.2.6", "files.example.com", "example.org", "files.", "[192.0.2.5", "ipv6-literal.net"];
    for host in bad {
        let refusal = Refusal::WrongTarget(format!("cifs/{host}"));
        assert_eq!(calling(&names, "192.0.2.5", host), Step::Refused(refusal));
        assert!(matches!(calling(&[], "192.0.2.5", host), Step::Done(_)), "{host}: any without names");
    }
}

/// A client whose preferred mechanism is not supported sends NEGOTIATE, then AUTHENTICATE, with a MIC over this list.
fn second_choice(mic_over: Option<&[u8]>) -> Step {
    let oids =
        [der::element(der::OID, KERBEROS), der::element(der::OID, &hex("2b06010401823702020a"))].concat();
    let list = der::element(der::SEQUENCE, &oids);
    let mut acceptor = Acceptor::new(Arc::new(authority()));
    let mut random = counting();
    let init = NegTokenInit { mechanisms: &list, token: Some(b"a ticket") }.to_bytes();
    let Step::Continue(token) = acceptor.step(&init, NOW, &mut random) else { panic!("no choice") };
    let response = NegTokenResp::parse(&token).unwrap();
    assert_eq!((response.state, response.mechanism), (Some(NegState::RequestMic), Some(Mechanism::Ntlm)));
    assert!(response.token.is_none());
    let negotiate = ntlm::initiator::negotiate();
    let token = NegTokenResp { token: Some(&negotiate), ..NegTokenResp::default() }.to_bytes();
    let Step::Continue(token) = acceptor.step(&token, NOW, &mut random) else { panic!("no challenge") };
    let challenge = NegTokenResp::parse(&token).unwrap().token.unwrap().to_vec();
    let alice = credentials("alice", "secret");
    let (message, keys) =
        ntlm::initiator::authenticate(&alice, "cifs/files", &challenge, NOW, &mut random).unwrap();
    let mic = mic_over.map(|list| keys.sign(ntlm::Direction::ClientToServer, list));
    let mic = mic.as_ref().map(|mic| &mic[..]);
    acceptor.step(
        &NegTokenResp { token: Some(&message), mic, ..NegTokenResp::default() }.to_bytes(),
        NOW,
        &mut random,
    )
}

#[test]
fn mechanism_list_mic_is_required_if_the_first_was_not_chosen() {
    let oids =
        [der::element(der::OID, KERBEROS), der::element(der::OID, &hex("2b06010401823702020a"))].concat();
    let list = der::element(der::SEQUENCE, &oids);
    let Step::Done(accepted) = second_choice(Some(&list)) else { panic!("refused") };
    assert!(NegTokenResp::parse(&accepted.token).unwrap().mic.is_some());
    assert_eq!(second_choice(None), Step::Refused(Refusal::NoMic));
    // An attacker has removed Kerberos from the list, or added it.
    assert_eq!(second_choice(Some(&mechanism_list())), Step::Refused(Refusal::Tampered));
}

#[test]
fn finished_exchange_refuses_tokens() {
    let mut acceptor = Acceptor::new(Arc::new(authority()));
    assert!(matches!(acceptor.step(b"x", NOW, &mut counting()), Step::Refused(Refusal::Malformed(_))));
    let start = Initiator::new(credentials("alice", "secret"), "files").start();
    assert_eq!(acceptor.step(&start, NOW, &mut counting()), Step::Refused(Refusal::Finished));
    let mut acceptor = Acceptor::new(Arc::new(authority()));
    let long = vec![0x60; TOKEN_BYTES_MAX + 1];
    assert_eq!(acceptor.step(&long, NOW, &mut counting()), Step::Refused(Refusal::TooLarge));
}

#[test]
fn random_changes_never_panic_or_authenticate() {
    let mut state = 1_u64;
    let mut random = move |bytes: &mut [u8]| {
        for byte in bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = state.to_be_bytes()[0];
        }
    };
    for _ in 0..2_000 {
        let mut acceptor = Acceptor::new(Arc::new(authority()));
        let mut client = Initiator::new(credentials("alice", "secret"), "files");
        let mut place = [0; 4];
        random(&mut place);
        let mut start = client.start();
        if place[0] & 1 == 0 {
            mutate(&mut start, place);
        }
        let Step::Continue(token) = acceptor.step(&start, NOW, &mut random) else { continue };
        let mut answer = token;
        if place[0] & 2 == 0 {
            mutate(&mut answer, place);
        }
        let Ok(mut token) = client.step(&answer, NOW, &mut random) else { continue };
        let before = token.clone();
        mutate(&mut token, place);
        if let Step::Done(accepted) = acceptor.step(&token, NOW, &mut random) {
            // Only bytes covered neither by the proof nor by the MIC may differ: DER lengths, which have several
            // encodings.
            let message = |token: &[u8]| NegTokenResp::parse(token).unwrap().token.unwrap().to_vec();
            assert_eq!((message(&before), place[0] & 3), (message(&token), 3), "{accepted:?}");
        }
    }
}

fn mutate(bytes: &mut Vec<u8>, [_, how, high, low]: [u8; 4]) {
    let at = usize::from(u16::from_be_bytes([high, low])) % bytes.len();
    if how < 200 { bytes[at] ^= how.max(1) } else { bytes.truncate(at) }
}
