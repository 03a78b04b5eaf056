//! Published vectors: Microsoft's ("SMB 2 and SMB 3 security in Windows 10", "SMB 3.1.1 Pre-authentication integrity in
//! Windows 10") and RFC 4493. For GMAC, ring's GCM is an independent implementation.

use gmac::Gmac;
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use super::cmac::Cmac;
use super::kdf::KeySource;
use super::signing::{Key, sign_all};
use super::{InvalidSignature, Preauth};
use crate::header::{Command, Header, SIGNATURE_OFFSET};
use crate::negotiate::SigningAlgorithm;
use crate::types::Dialect;
use crate::{Encode, NtStatus};

pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).unwrap()).collect()
}

fn key(text: &str) -> [u8; 16] {
    hex(text).try_into().unwrap()
}

const NEGOTIATE_REQUEST: &str = "
    fe534d4240000100000000000000800000000000000000000100000000000000fffe000000000000000000000000000000000000
    00000000000000000000000024000500000000003f000000ecd86f326276024f9f7752b89bb33f3a700000000200000002021002
    00030203110300000100260000000000010020000100fa49e6578f1f3a9f4cd3e9cc14a67aa884b3d05844e0e5a118225c15887f
    32ff00000200060000000000020002000100";
const SETUP_REQUEST: &str = "
    fe534d4240000100000000000100800000000000000000000200000000000000fffe000000000000000000000000000000000000
    00000000000000000000000019000001010000000000000058004a000000000000000000604806062b0601050502a03e303ca00e
    300c060a2b06010401823702020aa22a04284e544c4d5353500001000000978208e2000000000000000000000000000000000603
    80250000000f";
const SETUP_RESPONSE: &str = "
    fe534d4240000100000000000100800009000000000000000300000000000000fffe0000000000001900000000100000
    ebe146da120ba25fc3376a49dfe31bc10900000048001d00a11b3019a0030a0100a3120410010000003b453cdc35241642000000
    00";
const PREAUTH_1: &str = "
    dd94efc5321bb618a2e208ba8920d2f422992526947a409b5037de1e0fe8c7362b8c47122594cde0ce26aa9dfc8bcdbde0621957
    672623351a7540f1e54a0426";
const PREAUTH_2: &str = "
    324bfa92a4f3a190e466ebea08d9c110dc88bfed758d9846ecc6f541cc1d02ae3c94a79f36011e997e13f841b91b50957ad07b19
    c8e2539c0b23fdae09d2c513";
const PREAUTH_3: &str = "
    ac0b0f2b9986257700365e416d142a6edc96df03594a19e52a15f6bd0d041cd5d432f8ed42c55e33197a50c9ec00f1462b50c592
    211b1471a04b56088fdfd5f9";
const PREAUTH_5: &str = "
    0dd13628cc3ed218ef9df9772d436d0887ab9814bfae63a80aa845f36909db7928622dddad522d9751640a459762c5a9d6bb084c
    bb3ce6bdadef5d5bce3c6c01";

#[test]
fn preauth_hashes_every_message() {
    let mut preauth = Preauth::default();
    preauth.update(&hex(NEGOTIATE_REQUEST));
    assert_eq!(preauth.value()[..], hex(PREAUTH_1));
    let mut preauth = Preauth(hex(PREAUTH_2).try_into().unwrap());
    preauth.update(&hex(SETUP_REQUEST));
    assert_eq!(preauth.value()[..], hex(PREAUTH_3));
    assert!(format!("{preauth:?}").starts_with("Preauth(ac0b0f2b"));
}

#[test]
fn published_keys_match() {
    let preauth = Preauth(hex(PREAUTH_5).try_into().unwrap());
    let session_key = &hex("7cd451825d0450d235424e44ba6e78cc");
    let source = KeySource { dialect: Dialect::SMB300, session_key, preauth: &preauth };
    assert_eq!(source.signing(), key("0b7e9c5cac36c0f6ea9ab275298cedce"));
    assert_eq!(source.application(), key("bb23a4575aa26c721af525af15a87b4f"));
    assert_eq!(KeySource { dialect: Dialect::SMB302, ..source }.signing(), source.signing());

    let session_key = &hex("270e1ba896585eeb7af3472d3b4c75a7");
    let source = KeySource { dialect: Dialect::SMB311, session_key, preauth: &preauth };
    assert_eq!(source.signing(), key("73fe7a9a77bef0bde49c650d8ccb5f76"));
    assert_eq!(source.application(), key("6d7ad7954e9ec61e907b4d473dc178ff"));
}

#[test]
fn session_key_is_cut_or_padded_to_16_bytes() {
    let preauth = Preauth::default();
    let of = |session_key: &[u8], dialect| KeySource { dialect, session_key, preauth: &preauth }.signing();
    assert_eq!(of(&[1; 32], Dialect::SMB210), [1; 16]);
    assert_eq!(of(&[1; 32], Dialect::SMB300), of(&[1; 16], Dialect::SMB300));
    assert_eq!(of(&[2; 3], Dialect::SMB202), key("02020200000000000000000000000000"));
}

/// RFC 4493 §4.
#[test]
fn cmac_matches_rfc_4493() {
    let cmac = Cmac::new(&key("2b7e151628aed2a6abf7158809cf4f3c"));
    let message = hex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e5130c81c46a35ce411
         e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710");
    let expected = [
        (0, "bb1d6929e95937287fa37d129b756746"),
        (16, "070a16b46b4d4144f79bdd9dd04a287c"),
        (40, "dfa66747de9ae63030ca32611497c827"),
        (64, "51f0bebf7e3b9d92fc49741779363cfe"),
    ];
    for (length, mac) in expected {
        assert_eq!(cmac.mac([&message[..length]]), key(mac), "{length} bytes");
        let cut = length.min(32);
        assert_eq!(cmac.mac([&message[..cut], &message[cut..length]]), key(mac), "{length} bytes in two");
    }
}

/// GCM's tag of an empty plaintext.
fn tag_by_ring(key: &[u8; 16], nonce: [u8; 12], message: &[u8]) -> [u8; 16] {
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, key).unwrap());
    let nonce = Nonce::assume_unique_for_key(nonce);
    let tag = key.seal_in_place_separate_tag(nonce, Aad::from(message), &mut []).unwrap();
    tag.as_ref().try_into().unwrap()
}

#[test]
fn gmac_equals_gcm_of_empty_text() {
    let gmac_key = key("000102030405060708090a0b0c0d0e0f");
    let gmac = Gmac::new(&gmac_key);
    let message: Vec<_> = (0..=255).cycle().take(1000).collect();
    for length in [0, 1, 15, 16, 17, 64, 68, 127, 128, 129, 1000] {
        let nonce = [u8::try_from(length % 251).unwrap(); 12];
        let expected = tag_by_ring(&gmac_key, nonce, &message[..length]);
        assert_eq!(gmac.mac(nonce, [&message[..length]]), expected, "{length} bytes");
        let cut = length / 16 * 16;
        let parts = [&message[..cut], &message[cut..length]];
        assert_eq!(gmac.mac(nonce, parts), expected, "{length} bytes in two");
    }
}

/// A message signed by Windows.
#[test]
fn published_message_verifies() {
    let key = Key::new(SigningAlgorithm::AES_CMAC, &key("73fe7a9a77bef0bde49c650d8ccb5f76")).unwrap();
    let signed = hex(SETUP_RESPONSE);
    assert_eq!(key.verify(&signed), Ok(()));
    let mut message = signed.clone();
    message[SIGNATURE_OFFSET..][..16].fill(0x55);
    key.sign(&mut message);
    assert_eq!(message, signed);
}

fn message(command: Command, is_response: bool) -> Vec<u8> {
    let mut header = Header::request(command, 0x0102_0304_0506_0708, 0x19, 5);
    if is_response {
        header = header.response(NtStatus::SUCCESS);
    }
    let mut bytes = header.to_bytes();
    bytes.extend_from_slice(&[4, 0, 0, 0]);
    bytes
}

#[test]
fn any_changed_bit_is_detected() {
    for (_, algorithm) in SigningAlgorithm::NAMED {
        let key = Key::new(SigningAlgorithm(*algorithm), &[7; 16]).unwrap();
        let other = Key::new(SigningAlgorithm(*algorithm), &[8; 16]).unwrap();
        let mut signed = message(Command::ECHO, false);
        key.sign(&mut signed);
        assert_eq!(signed[16], 8, "SIGNED is set");
        assert_eq!(key.verify(&signed), Ok(()));
        assert_eq!(other.verify(&signed), Err(InvalidSignature));
        for bit in 0..signed.len() * 8 {
            let mut changed = signed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key.verify(&changed), Err(InvalidSignature), "{key:?}, bit {bit}");
        }
        for length in 0..signed.len() {
            assert_eq!(key.verify(&signed[..length]), Err(InvalidSignature), "{key:?}, {length} bytes");
        }
        let longer = [&signed[..], &[0]].concat();
        assert_eq!(key.verify(&longer), Err(InvalidSignature));
    }
    assert!(Key::new(SigningAlgorithm(3), &[0; 16]).is_none());
}

/// HMAC-SHA256 by another implementation, cut to 16 bytes.
#[test]
fn hmac_is_cut_to_16_bytes() {
    let key_bytes = key("000102030405060708090a0b0c0d0e0f");
    let mut signed =
        hex("fe534d42400001000000000000000100080000000000000003000000000000000000feff0000000019000000
         001000000000000000000000000000000000000004000000");
    let key = Key::new(SigningAlgorithm::HMAC_SHA256, &key_bytes).unwrap();
    key.sign(&mut signed);
    assert_eq!(signed[SIGNATURE_OFFSET..][..16], hex("a13daf6dfb19e7292e435fbd721c2234"));
}

#[test]
fn gmac_nonce_differs_by_direction_and_cancel() {
    let key_bytes = [9; 16];
    let key = Key::new(SigningAlgorithm::AES_GMAC, &key_bytes).unwrap();
    for (command, is_response, last) in
        [(Command::READ, false, 0), (Command::READ, true, 1), (Command::CANCEL, false, 2)]
    {
        let mut signed = message(command, is_response);
        key.sign(&mut signed);
        let mut plain = signed.clone();
        plain[SIGNATURE_OFFSET..][..16].fill(0);
        let nonce = [8, 7, 6, 5, 4, 3, 2, 1, last, 0, 0, 0];
        assert_eq!(signed[SIGNATURE_OFFSET..][..16], tag_by_ring(&key_bytes, nonce, &plain), "{command:?}");
    }
}

/// Lengths around blocks and lanes, in an order that fills and empties lanes at different times.
#[test]
fn lockstep_signatures_equal_single_ones() {
    let keys: Vec<_> = [SigningAlgorithm::AES_CMAC, SigningAlgorithm::AES_CMAC, SigningAlgorithm::AES_GMAC]
        .into_iter()
        .zip(1..)
        .map(|(algorithm, byte)| Key::new(algorithm, &[byte; 16]).unwrap())
        .collect();
    let lengths =
        [64, 65, 4000, 79, 80, 81, 64, 3000, 96, 128, 64, 1000, 112, 16_384, 68, 68, 68, 64, 2000, 77];
    for count in 0..=lengths.len() {
        let plain: Vec<Vec<u8>> =
            lengths[..count].iter().map(|length| (0..=255).cycle().take(*length).collect()).collect();
        let mut together = plain.clone();
        let of = |index: usize| &keys[[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 0, 0, 1, 0][index]];
        let mut messages: Vec<_> =
            together.iter_mut().enumerate().map(|(index, message)| (of(index), &mut message[..])).collect();
        sign_all(&mut messages);
        for (index, mut message) in plain.into_iter().enumerate() {
            of(index).sign(&mut message);
            assert!(message == together[index], "message {index} of {count}");
            assert_eq!(of(index).verify(&message), Ok(()));
        }
    }
}
