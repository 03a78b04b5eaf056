//! Vectors of Microsoft's ("Encryption in SMB 3.0", "SMB 3.1.1 Encryption in Windows 10") and of another
//! implementation.

use super::*;
use crate::crypto::Preauth;
use crate::crypto::kdf::KeySource;
use crate::crypto::tests::hex;
use crate::types::Dialect;

const PREAUTH: &str = "
    b23f3cbfd69487d9832b79b1594a367cdd950909b774c3a4c412b4fcea9edddba7db256ba2ea30e977f11f9b113247578e0e915c
    6d2a513b8f2fca5707dc8770";
const REQUEST_311: &str = "
    fd534d42bd73d97d2bc9001bcafac0fdff5feebcc7d6822d269caf48904c664c0000000087000000000001002500000000100000
    6ecdd2a7afc7b47763057a041b8fd4daffe990b70c9e09d36c084e02d14ef247f8bde38acf6256f8b1d3b56f77fbdeb312fea5e9
    2cbcc1ed8fb2ebbfaa75e49a4a394bb44576545567c24d4c014d47c9fbdfdafd2c4f9b72f8d256452620a299f48e29e53d6b61d1
    c13a19e91af013f00d17e3abc2fc3d36c8c1b6b93973253852dbd442e46ee8";
const RESPONSE_311: &str = "
    fd534d42acbe1cb7ed343adf1725ef144d90d4b0e06831dd2e8eb7b4000000000000000050000000000001002500000000100000
    26bbbf949983a6c1c796559d0f2c510cb651d1f7b6ac8ded32a2a0b8f2d793a815c6f6b848d69767a215841a42d400ae6ddb5f0b
    44173a014973321fdd7950da6179159b82e03c9e18a050ff0ea1c967";
const RESPONSE_300: &str = "
    fd534d42a6015530a18f6d9affe22afae8e6648486000000000000001100001400e4080050000000000001001100001400e40800
    dbf46435c5f14169293ce079e344479bf670227e49873f458672c3098dac467dd5809f369d674091665157871483e01f7becd020
    64eac3e235f913668bbc2f097980d4b378f1993eff6e60d177309e5b";
const REQUEST_300: &str = "
    fd534d4281a286535415445dae393921e44fa42e66e69a111892584fb5ed524a744da3ee87000000000001001100001400e40800
    25c8fee16605a437832d1cd52da9f4645333482a175fe5384563f45fcdafaef38bc62ba4d5c62897996625a44c29be5658de2e61
    17585779e7b59ffd971278d08580d7fa899e410e910eabf5aa1db43050b33b49182637759ac15d84bfcdf5b6b238993c0f4cf4d6
    012023f6c627297075d84b7803912d0a9639634453595ef3e33ffe4e7ac2ab";

/// Both keys of a session, the client's first.
fn keys(dialect: Dialect, cipher: Cipher, session_key: &[u8], preauth: &Preauth) -> [SealingKey; 2] {
    let source = KeySource { dialect, session_key, preauth };
    [source.client_to_server(cipher).unwrap(), source.server_to_client(cipher).unwrap()]
}

/// Asserts that a published message opens to a WRITE or its response with `inside`, and that sealing reproduces it.
fn check(key: SealingKey, message: &str, inside: &[u8]) {
    let sealed = hex(message);
    let mut message = sealed.clone();
    let opener = Opener::new(key);
    let text = opener.open(&mut message).unwrap();
    assert_eq!(text[..4], *b"\xfeSMB");
    assert!(text.ends_with(inside), "{text:x?}");
    let header = TransformHeader::from_bytes(&sealed).unwrap();
    let sealer = Sealer::new(opener.0);
    message[..TRANSFORM_SIZE].fill(0x77);
    sealer.seal_with(header.nonce, header.session_id, &mut message);
    assert_eq!(message, sealed);
}

#[test]
fn published_messages_open_and_seal() {
    let none = Preauth::default();
    let session_key = hex("b4546771b515f766a86735532dd6c4f0");
    let [client, server] = keys(Dialect::SMB300, Cipher::AES_128_CCM, &session_key, &none);
    check(client, REQUEST_300, b"Smb3 encryption testing");
    check(server, RESPONSE_300, &hex("11000000170000000000000000000000"));
    let session_key = hex("419fddf34c1e001909d362ae7fb6af79");
    let preauth = Preauth(hex(PREAUTH).try_into().unwrap());
    let [client, server] = keys(Dialect::SMB311, Cipher::AES_128_GCM, &session_key, &preauth);
    check(client, REQUEST_311, b"Smb3 encryption testing");
    check(server, RESPONSE_311, &hex("11000000170000000000000000000000"));
}

/// Produced with Python's `cryptography`: keys from 32 bytes, and the message `sealed!` under the second nonce.
#[test]
fn every_cipher_agrees_with_another_implementation() {
    let bytes: Vec<u8> = (0..64).collect();
    let expected = [
        (Cipher::AES_128_CCM, "0da57926a2585d02fdec5bce634152339b498a1e1efcf7"),
        (Cipher::AES_128_GCM, "3fd8b869f8d2b3a6ba716efc546f3fa3d9dfbf1e4dde35"),
        (Cipher::AES_256_CCM, "9475e1a4a43efbdce22e043b93ce79ee205a7c25984848"),
        (Cipher::AES_256_GCM, "9149e353c1cbcdb316ddc2776fee088b6220f96fc32df3"),
    ];
    for (cipher, expected) in expected {
        let length = if [Cipher::AES_128_CCM, Cipher::AES_128_GCM].contains(&cipher) { 16 } else { 32 };
        let sealer = Sealer::new(SealingKey::new(cipher, &bytes[..length]).unwrap());
        let mut message = [&[0; TRANSFORM_SIZE][..], b"sealed!"].concat();
        sealer.seal(0x1122_3344_5566_7788, &mut message.clone()).unwrap();
        sealer.seal(0x1122_3344_5566_7788, &mut message).unwrap();
        let found = [&message[TRANSFORM_SIZE..], &message[4..20]].concat();
        assert_eq!(found, hex(expected), "{cipher:?}");
        assert_eq!(Opener::new(sealer.key).open(&mut message).unwrap(), b"sealed!");
    }
}

#[test]
fn keys_of_256_bits_use_the_full_session_key() {
    let preauth = Preauth(std::array::from_fn(|index| u8::try_from(index).unwrap()));
    let session_key: Vec<u8> = (0..32).collect();
    let derived = keys(Dialect::SMB311, Cipher::AES_256_GCM, &session_key, &preauth);
    let expected = [
        "e568de865ae188f20138931c5423898fc0d5e94fa094b72d474fc56cf5703db6",
        "53f8b2fb513a90f5231f5ac12ba0a24b9eed8f6e80596136560f1b0003e8d2ae",
    ];
    for (key, expected) in derived.into_iter().zip(expected) {
        let expected = Opener::new(SealingKey::new(Cipher::AES_256_GCM, &hex(expected)).unwrap());
        let mut message = [0; TRANSFORM_SIZE + 5];
        Sealer::new(key).seal(7, &mut message).unwrap();
        assert_eq!(expected.open(&mut message), Ok(&mut [0; 5][..]));
    }
}

#[test]
fn dialect_accepts_only_its_ciphers() {
    let preauth = &Preauth::default();
    for dialect in [Dialect::SMB202, Dialect::SMB210, Dialect::SMB300, Dialect::SMB302, Dialect::SMB311] {
        let source = KeySource { dialect, session_key: &[1; 16], preauth };
        for cipher in (0..6).map(Cipher) {
            let expected = match dialect {
                Dialect::SMB311 => (1..5).contains(&cipher.0),
                Dialect::SMB300 | Dialect::SMB302 => cipher == Cipher::AES_128_CCM,
                _ => false,
            };
            assert_eq!(source.client_to_server(cipher).is_some(), expected, "{dialect:?} {cipher:?}");
            assert_eq!(source.server_to_client(cipher).is_some(), expected, "{dialect:?} {cipher:?}");
        }
    }
}

#[test]
fn any_changed_bit_is_detected() {
    for (_, cipher) in Cipher::NAMED {
        let source =
            KeySource { dialect: Dialect::SMB311, session_key: &[1; 16], preauth: &Preauth::default() };
        let opener = Opener::new(source.client_to_server(Cipher(*cipher)).unwrap());
        let sealer = Sealer::new(source.client_to_server(Cipher(*cipher)).unwrap());
        let mut sealed = [&[0; TRANSFORM_SIZE][..], b"nobody reads this"].concat();
        sealer.seal(9, &mut sealed).unwrap();
        assert_eq!(opener.open(&mut sealed.clone()).unwrap(), b"nobody reads this");
        for bit in 0..sealed.len() * 8 {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            // The two reserved bytes are authenticated as well.
            assert_eq!(opener.open(&mut changed), Err(InvalidSignature), "bit {bit}");
        }
        for length in 0..sealed.len() {
            assert_eq!(opener.open(&mut sealed.clone()[..length]), Err(InvalidSignature), "{length} bytes");
        }
        assert_eq!(opener.open(&mut [&sealed[..], &[0]].concat()), Err(InvalidSignature));
        let other = Opener::new(source.server_to_client(Cipher(*cipher)).unwrap());
        assert_eq!(other.open(&mut sealed), Err(InvalidSignature), "the other direction has another key");
    }
}

#[test]
fn nonces_never_repeat_and_run_out() {
    let key = || SealingKey::new(Cipher::AES_128_GCM, &[3; 16]).unwrap();
    let sealer = Sealer::new(key());
    let nonce = || {
        let mut message = [0; TRANSFORM_SIZE];
        sealer.seal(1, &mut message).map(|()| TransformHeader::from_bytes(&message).unwrap().nonce)
    };
    let mut nonces: Vec<_> = (0..400).map(|_| nonce().unwrap()).collect();
    nonces.sort_unstable();
    nonces.dedup();
    assert_eq!(nonces.len(), 400);
    sealer.next.store(u64::MAX - 1, Ordering::Relaxed);
    assert!(nonce().is_ok());
    assert_eq!(nonce(), Err(NoncesExhausted));
    assert_eq!(nonce(), Err(NoncesExhausted));
}
