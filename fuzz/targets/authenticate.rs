//! Authentications of unauthenticated peers: a client's tokens to a server, and a server's to a client.
//! The first byte picks the direction; the next two give the length of the first token.
#![no_main]

use identity::{
    Accounts, Acceptor, Authority, Credentials, FileTime, Initiator, MicPolicy, NtHash, ServerNames,
    SharedAccounts, Sid, Step,
};
use std::sync::Arc;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((&[side, high, low], input)) = input.split_first_chunk() else { return };
    let (first, second) = input.split_at(usize::from(u16::from_be_bytes([high, low])).min(input.len()));
    let (now, mut random) = (FileTime(1), |bytes: &mut [u8]| bytes.fill(7));
    if side % 2 == 0 {
        let nt_hash = NtHash::from_password("secret");
        let credentials = Credentials { user: "alice".to_owned(), domain: String::new(), nt_hash };
        let mut client = Initiator::new(credentials, "files");
        _ = client.step(first, now, &mut random);
        assert!(client.finish(second).is_err(), "nobody here has the key");
        return;
    }
    let authority = Authority {
        names: ServerNames::of_host("files.example.org"),
        accounts: SharedAccounts::new(Accounts::none(Sid::machine([1, 2, 3]), "FILES")),
        null_sessions: false,
        mic: MicPolicy::Announced,
        target_names: Vec::new(),
    };
    let mut acceptor = Acceptor::new(Arc::new(authority));
    for token in [first, second] {
        let stepped = acceptor.step(token, now, &mut random);
        assert!(!matches!(stepped, Step::Done(_)), "nobody is let in");
    }
});
