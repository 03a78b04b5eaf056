//! NEGOTIATE.

use crate::rig::{Client, Offer, Rig, chained, ioctl, output};
use smb_wire::fsctl::{ValidateNegotiateRequest, ValidateNegotiateResponse};
use smb_wire::header::{Command, Header};
use smb_wire::ioctl::CtlCode;
use smb_wire::negotiate::{
    Capabilities, Cipher, ContextType, HashAlgorithm, NegotiateContext, NegotiateRequest, NegotiateResponse,
    SecurityMode, SigningAlgorithm,
};
use smb_wire::session::Empty;
use smb_wire::smb1::Smb1Negotiate;
use smb_wire::types::Dialect;
use smb_wire::{Decode, Encode, FileId, FileTime, Guid, NtStatus};

const MIB: u32 = 1 << 20;

#[test]
fn best_common_dialect_is_chosen() {
    let all = [Dialect::SMB202, Dialect::SMB210, Dialect::SMB300, Dialect::SMB302, Dialect::SMB311];
    let rig = Rig::new();
    for (count, best) in all.iter().enumerate().skip(1) {
        let mut client = rig.connect();
        let reply = client.negotiate(&Offer { dialects: all[..=count].to_vec(), ..Offer::default() });
        let answer: NegotiateResponse<'_> = reply.body();
        assert_eq!(answer.dialect, *best);
        let both = SecurityMode::SIGNING_ENABLED | SecurityMode::SIGNING_REQUIRED;
        assert_eq!(answer.security_mode, both, "signing is required of {best:?}");
        let sizes = (answer.max_transact_size, answer.max_read_size, answer.max_write_size);
        assert_eq!(sizes, (MIB, MIB, MIB));
        let seals = [Dialect::SMB300, Dialect::SMB302].contains(best);
        let encryption = if seals { Capabilities::ENCRYPTION } else { Capabilities::empty() };
        let several = *best != Dialect::SMB210;
        let of_three = Capabilities::MULTI_CHANNEL | Capabilities::DIRECTORY_LEASING;
        let of_three = if several { of_three } else { Capabilities::empty() };
        let of_all = Capabilities::LARGE_MTU | Capabilities::LEASING;
        assert_eq!(answer.capabilities, of_all | encryption | of_three);
        assert_eq!(answer.security_buffer, identity::neg_token_init2());
        assert_eq!(answer.server_start_time, FileTime::NONE);
        assert_eq!(answer.contexts.is_empty(), *best != Dialect::SMB311);
        assert_eq!(reply.header.credits, 64, "as many as were asked for");
        assert_eq!(reply.header.session_id, 0);
    }
}

#[test]
fn capabilities_of_client_limit_the_reply() {
    let rig = Rig::new();
    let mut client = rig.connect();
    let reply = client.negotiate(&Offer { capabilities: Capabilities::LARGE_MTU, ..Offer::default() });
    let answer: NegotiateResponse<'_> = reply.body();
    assert_eq!(answer.capabilities, Capabilities::LARGE_MTU | Capabilities::LEASING);
}

#[test]
fn no_common_dialect_is_refused() {
    let rig = Rig::new();
    for dialects in [vec![Dialect::SMB202], vec![Dialect(0x0777)], vec![Dialect::SMB2_WILDCARD]] {
        let mut client = rig.connect();
        let reply = client.call(Command::NEGOTIATE, &Offer { dialects, ..Offer::default() }.request());
        reply.assert_refused(NtStatus::NOT_SUPPORTED);
    }
    for count in [0, 65] {
        let mut client = rig.connect();
        let dialects = vec![Dialect::SMB300; count];
        let reply = client.call(Command::NEGOTIATE, &Offer { dialects, ..Offer::default() }.request());
        reply.assert_refused(NtStatus::INVALID_PARAMETER);
    }
}

fn contexts_of(rig: &Rig, contexts: Vec<NegotiateContext<'static>>) -> Result<Vec<ContextType>, NtStatus> {
    let offer = Offer::of(Dialect::SMB311).request();
    let mut client = rig.connect();
    let reply = client.call(Command::NEGOTIATE, &NegotiateRequest { contexts, ..offer });
    if reply.status().is_error() {
        return Err(reply.status());
    }
    Ok(reply.body::<NegotiateResponse<'_>>().contexts.iter().map(NegotiateContext::context_type).collect())
}

#[test]
fn duplicate_and_unknown_contexts_are_handled() {
    let rig = Rig::new();
    let hash_algorithms = vec![HashAlgorithm(7), HashAlgorithm::SHA_512];
    let preauth = NegotiateContext::Preauth { hash_algorithms, salt: &[1; 32] };
    let no_hash = NegotiateContext::Preauth { hash_algorithms: vec![HashAlgorithm(7)], salt: &[] };
    let other = NegotiateContext::Other { context_type: ContextType(0x7777), data: &[1, 2, 3] };
    let cipher = |cipher| NegotiateContext::Encryption(vec![Cipher(0x99), cipher]);
    let signing = |algorithm| NegotiateContext::Signing(vec![algorithm]);
    let answered = contexts_of(&rig, vec![preauth.clone(), other.clone(), cipher(Cipher::AES_256_CCM)]);
    let expected = [ContextType::PREAUTH_INTEGRITY_CAPABILITIES, ContextType::ENCRYPTION_CAPABILITIES];
    assert_eq!(answered, Ok(expected.to_vec()));
    assert_eq!(contexts_of(&rig, vec![]), Err(NtStatus::INVALID_PARAMETER), "3.1.1 needs the hash");
    assert_eq!(contexts_of(&rig, vec![cipher(Cipher::AES_128_GCM)]), Err(NtStatus::INVALID_PARAMETER));
    assert_eq!(contexts_of(&rig, vec![preauth.clone(), preauth.clone()]), Err(NtStatus::INVALID_PARAMETER));
    assert_eq!(contexts_of(&rig, vec![no_hash]), Err(NtStatus::SMB_NO_PREAUTH_INTEGRITY_HASH_OVERLAP));
    let unknown = signing(SigningAlgorithm(9));
    assert_eq!(contexts_of(&rig, vec![preauth.clone(), unknown]), Err(NtStatus::INVALID_PARAMETER));
    let many = [vec![preauth], vec![other; 16]].concat();
    assert_eq!(contexts_of(&rig, many), Err(NtStatus::INVALID_PARAMETER));
}

#[test]
fn preferred_algorithms_are_chosen() {
    let rig = Rig::new();
    let mut client = rig.connect();
    let reply = client.negotiate(&Offer {
        ciphers: vec![Cipher::AES_128_CCM, Cipher::AES_256_GCM],
        signing: vec![SigningAlgorithm::HMAC_SHA256, SigningAlgorithm::AES_CMAC],
        ..Offer::default()
    });
    let answer: NegotiateResponse<'_> = reply.body();
    let [NegotiateContext::Preauth { hash_algorithms, salt }, encryption, signing] = &answer.contexts[..]
    else {
        panic!("{:?}", answer.contexts)
    };
    assert_eq!((&hash_algorithms[..], salt.len()), (&[HashAlgorithm::SHA_512][..], 32));
    assert_eq!(encryption, &NegotiateContext::Encryption(vec![Cipher::AES_256_GCM]));
    assert_eq!(signing, &NegotiateContext::Signing(vec![SigningAlgorithm::AES_CMAC]));
    let mut client = rig.connect();
    let reply = client.negotiate(&Offer { ciphers: vec![Cipher(0x99)], ..Offer::default() });
    let none = NegotiateContext::Encryption(vec![Cipher(0)]);
    assert!(reply.body::<NegotiateResponse<'_>>().contexts.contains(&none));
}

#[test]
fn multichannel_client_gets_shareable_signing() {
    let (gmac, cmac, hmac) =
        (SigningAlgorithm::AES_GMAC, SigningAlgorithm::AES_CMAC, SigningAlgorithm::HMAC_SHA256);
    let several = Offer::default().capabilities;
    let rig = Rig::new();
    for (capabilities, offered, chosen, has_channels) in [
        (several, vec![gmac, cmac, hmac], cmac, true),
        (several, vec![gmac, hmac], hmac, true),
        // A client without multichannel has a single connection.
        (several, vec![gmac], gmac, false),
        (Offer::single().capabilities, vec![hmac, cmac, gmac], gmac, false),
    ] {
        let mut client = rig.connect();
        let offer = Offer { capabilities, signing: offered, ..Offer::default() };
        let reply = client.negotiate(&offer);
        let answer: NegotiateResponse<'_> = reply.body();
        assert!(answer.contexts.contains(&NegotiateContext::Signing(vec![chosen])), "{offer:?}");
        assert_eq!(answer.capabilities.contains(Capabilities::MULTI_CHANNEL), has_channels, "{offer:?}");
    }
}

#[test]
fn smb1_negotiate_leads_to_smb2() {
    let rig = Rig::new();
    let mut client = rig.connect();
    let dialects: Vec<&[u8]> = vec![b"NT LM 0.12", Smb1Negotiate::SMB202, Smb1Negotiate::SMB2_WILDCARD];
    client.send(&Smb1Negotiate { dialects }.to_bytes());
    let reply = client.reply();
    let answer: NegotiateResponse<'_> = reply.body();
    assert_eq!((reply.header.command, reply.header.message_id), (Command::NEGOTIATE, 0));
    assert_eq!((answer.dialect, reply.header.credits), (Dialect::SMB2_WILDCARD, 1));
    assert_eq!(reply.header.credit_charge, 0);
    // The first id is used.
    client.next_id = 1;
    assert_eq!(client.negotiate(&Offer::default()).body::<NegotiateResponse<'_>>().dialect, Dialect::SMB311);
    client.log_on(crate::rig::ALICE);
    client.mount(crate::rig::SHARE);
    let again = Smb1Negotiate { dialects: vec![Smb1Negotiate::SMB2_WILDCARD] };
    client.send(&again.to_bytes());
    client.assert_ended();
}

#[test]
fn smb1_only_client_is_refused() {
    let rig = Rig::new();
    for dialects in [vec![&b"NT LM 0.12"[..]], vec![], vec![Smb1Negotiate::SMB202]] {
        let mut client = rig.connect();
        client.send(&Smb1Negotiate { dialects }.to_bytes());
        client.assert_ended();
    }
}

/// MS-SMB2 §3.3.5.4: even if the second one is malformed, signed, encrypted, or in a compound.
#[test]
fn second_negotiate_ends_the_connection() {
    type Again = fn(&mut Client) -> Vec<u8>;
    let again: [Again; 3] = [
        |client| client.request(Command::NEGOTIATE, &Offer::default().request()),
        |client| client.request(Command::NEGOTIATE, &Empty),
        |client| {
            let echo = client.request(Command::ECHO, &Empty);
            chained(vec![echo, client.request(Command::NEGOTIATE, &Offer::default().request())])
        },
    ];
    let rig = Rig::new();
    for again in again {
        for logs_on in [false, true] {
            for seals in [false, true] {
                let mut client = rig.connect();
                client.negotiate(&Offer::default());
                if logs_on {
                    client.log_on(crate::rig::ALICE);
                    client.seals = seals;
                }
                let request = again(&mut client);
                client.send_protected(request);
                client.assert_ended();
            }
        }
    }
    // A refused NEGOTIATE has no effect.
    let mut client = rig.connect();
    let none = Offer { dialects: vec![Dialect::SMB202], ..Offer::default() };
    client.call(Command::NEGOTIATE, &none.request()).assert_refused(NtStatus::NOT_SUPPORTED);
    client.negotiate(&Offer::default());
    client.log_on(crate::rig::ALICE);
}

#[test]
fn command_before_negotiate_ends_the_connection() {
    let rig = Rig::new();
    let mut client = rig.connect();
    let header = Header::request(Command::ECHO, 0, 0, 0);
    client.send(&crate::rig::message(&header, &smb_wire::session::Empty));
    client.reply().assert_refused(NtStatus::INVALID_PARAMETER);
}

fn validate(dialects: &[Dialect], offer: &Offer) -> Vec<u8> {
    let asked = ValidateNegotiateRequest {
        capabilities: offer.capabilities,
        guid: Guid([9; 16]),
        security_mode: SecurityMode::SIGNING_ENABLED,
        dialects: dialects.to_vec(),
    };
    asked.to_bytes()
}

const VALIDATE: CtlCode = CtlCode::VALIDATE_NEGOTIATE_INFO;

#[test]
fn validate_negotiate_returns_negotiated_values() {
    let rig = Rig::new();
    let offer = Offer { dialects: vec![Dialect::SMB210, Dialect::SMB302], ..Offer::default() };
    let mut client = rig.alice_with(&offer);
    let asked = validate(&offer.dialects, &offer);
    let refused = client.ioctl(FileId::NONE, VALIDATE, &asked, 23);
    refused.assert_refused(NtStatus::INVALID_PARAMETER);
    let reply = client.ioctl(FileId::NONE, VALIDATE, &asked, 24);
    let told = ValidateNegotiateResponse::from_bytes(output(&reply)).unwrap();
    assert_eq!(told.dialect, Dialect::SMB302);
    let agreed = Capabilities::LARGE_MTU | Capabilities::MULTI_CHANNEL | Capabilities::ENCRYPTION;
    let caches = Capabilities::LEASING | Capabilities::DIRECTORY_LEASING;
    assert_eq!(told.capabilities, agreed | caches);
    assert_eq!(told.security_mode, SecurityMode::SIGNING_ENABLED | SecurityMode::SIGNING_REQUIRED);
}

#[test]
fn changed_negotiation_ends_the_connection() {
    let rig = Rig::new();
    let offer = Offer { dialects: vec![Dialect::SMB210], ..Offer::default() };
    let mut client = rig.alice_with(&offer);
    // An attacker has removed 3.0.2.
    let asked = validate(&[Dialect::SMB210, Dialect::SMB302], &offer);
    let request = client.request(Command::IOCTL, &ioctl(FileId::NONE, VALIDATE, &asked, 24));
    client.send_protected(request);
    client.assert_ended();
}
