//! The secret that coordinator and agents share. Proofs do not reveal it.

use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::error::Error;

/// Length of a token, which should be random.
const BYTES: std::ops::RangeInclusive<usize> = 16..=1024;
const BLOCK: usize = 64;

#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    Coordinator,
    Agent,
}

impl Token {
    /// Ignores surrounding white space.
    ///
    /// # Errors
    /// The file cannot be read, users other than its owner may read it, or its content is not a token.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let shown = path.display();
        let failed = |source| Error::Io { doing: format!("read the token file {shown}"), source };
        let file = stable::files::open_secret(path).map_err(|error| match error.kind() {
            ErrorKind::InvalidData => Error::Plan(format!("the token file {shown}: {error}")),
            _ => failed(error),
        })?;
        let mut text = String::new();
        file.take(*BYTES.end() as u64 + 64).read_to_string(&mut text).map_err(failed)?;
        text.trim().parse().map_err(|wrong| Error::Plan(format!("the token file {shown}: {wrong}")))
    }

    /// Proves that `role` knows the token, for the nonces of coordinator and agent.
    pub(super) fn proof(&self, role: Role, [coordinators, agents]: [&str; 2]) -> String {
        let role = match role {
            Role::Coordinator => "coordinator",
            Role::Agent => "agent",
        };
        let message = format!("plimsoll-agent/{} {role} {coordinators} {agents}", super::limits::VERSION);
        hex(&hmac(self.0.as_bytes(), message.as_bytes()))
    }

    /// Compares in constant time.
    pub(super) fn is_proven(&self, proof: &str, role: Role, nonces: [&str; 2]) -> bool {
        let wanted = self.proof(role, nonces);
        let differing = wanted.bytes().zip(proof.bytes()).fold(0, |differing, (a, b)| differing | (a ^ b));
        std::hint::black_box(differing) == 0 && proof.len() == wanted.len()
    }
}

impl std::str::FromStr for Token {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if BYTES.contains(&text.len()) {
            Ok(Self(text.to_owned()))
        } else {
            let (least, most) = (BYTES.start(), BYTES.end());
            Err(format!("a token has {least} to {most} bytes, this has {}", text.len()))
        }
    }
}

impl fmt::Debug for Token {
    /// Hides the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// 64 hexadecimal digits.
pub(super) fn nonce() -> Result<String, Error> {
    let mut bytes = [0; 32];
    let read = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes));
    read.map_err(Error::io("get random bytes"))?;
    Ok(hex(&bytes))
}

pub(super) fn is_nonce(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// HMAC-SHA-256 (RFC 2104 §2).
fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let keyed = |pad: u8| Sha256::new().chain_update(block.map(|byte| byte ^ pad));
    let inner = keyed(0x36).chain_update(message).finalize();
    keyed(0x5c).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn hmac_is_that_of_rfc_4231() {
        for (key, data, wanted) in [
            (vec![0x0b; 20], "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
            (
                b"Jefe".to_vec(),
                "what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                vec![0xaa; 131],
                "Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ] {
            assert_eq!(hex(&hmac(&key, data.as_bytes())), wanted);
        }
    }

    #[test]
    fn proof_holds_for_one_role_and_its_nonces() {
        let token: Token = "0123456789abcdef".parse().unwrap();
        let other: Token = "0123456789abcdeF".parse().unwrap();
        let [one, two] = [nonce().unwrap(), nonce().unwrap()];
        assert!(is_nonce(&one) && one != two && !is_nonce("x") && !is_nonce(&"x".repeat(64)));
        let proof = token.proof(Role::Coordinator, [&one, &two]);
        assert!(token.is_proven(&proof, Role::Coordinator, [&one, &two]));
        assert!(!token.is_proven(&proof, Role::Agent, [&one, &two]));
        assert!(!token.is_proven(&proof, Role::Coordinator, [&two, &one]));
        assert!(!other.is_proven(&proof, Role::Coordinator, [&one, &two]));
        for wrong in ["", &proof[..63], &format!("{proof}0")] {
            assert!(!token.is_proven(wrong, Role::Coordinator, [&one, &two]));
        }
        assert!(!format!("{token:?}").contains("0123"));
    }

    #[test]
    fn token_file_is_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, mode, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let good = file("good", 0o600, " 0123456789abcdef\n");
        assert_eq!(Token::read(&good).unwrap(), "0123456789abcdef".parse().unwrap());
        for (name, mode, text, wanted) in [
            ("open", 0o640, "0123456789abcdef", "chmod 600"),
            ("short", 0o600, "secret\n", "16 to 1024 bytes, this has 6"),
            ("long", 0o600, &"x".repeat(2000), "16 to 1024 bytes"),
        ] {
            let error = Token::read(&file(name, mode, text)).unwrap_err().to_string();
            assert!(error.contains(wanted) && error.contains(name), "{error}");
        }
        assert!(Token::read(&dir.path().join("none")).unwrap_err().to_string().contains("none"));
    }
}
