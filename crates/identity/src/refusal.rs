//! The reasons for which an authentication fails.

use std::fmt;

/// The reason for which a token is refused. It goes to the server's log; the client learns only that it failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The bytes are not a valid token.
    Malformed(Malformed),
    /// The token is too long, or the client has sent too many.
    TooLarge,
    /// The client proposes no supported mechanism.
    NoMechanism,
    /// The client wants less than NTLMv2 with 128-bit session security.
    Weak(&'static str),
    /// The user is unknown, or the response does not prove the user's password.
    WrongCredentials,
    /// The messages differ from those that the client sent or received.
    Tampered,
    /// The client sends no MIC over its messages, and the policy requires one.
    NoMic,
    /// The client's target name is not this service.
    WrongTarget(String),
    /// The client gives no user name, and null sessions are disabled.
    Anonymous,
    /// The exchange has already ended.
    Finished,
}

/// The defect of a malformed token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(&'static str);

impl Malformed {
    pub(crate) const DER: Self = Self("a DER element is truncated or unexpected");
    pub(crate) const SPNEGO: Self = Self("the SPNEGO token is not the expected one");
    pub(crate) const NTLM: Self = Self("the NTLM message is not the expected one");
    pub(crate) const FIELD: Self = Self("a field of an NTLM message is too long or outside of the message");
    pub(crate) const NAME: Self = Self("a name is not valid UTF-16");
    pub(crate) const RESPONSE: Self = Self("the NTLMv2 response is truncated or has invalid contents");
    pub(crate) const KEY: Self = Self("the session key is not 16 bytes long");
}

impl Refusal {
    /// Whether the bytes are not a valid token, as opposed to a valid token that proves nothing.
    pub fn is_malformed(&self) -> bool {
        matches!(self, Self::Malformed(_) | Self::TooLarge)
    }
}

impl From<Malformed> for Refusal {
    fn from(defect: Malformed) -> Self {
        Self::Malformed(defect)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => write!(f, "the token is malformed: {}", what.0),
            Self::TooLarge => f.write_str("the token is too long, or the client has sent too many"),
            Self::NoMechanism => f.write_str("the client proposes no supported mechanism; NTLM is supported"),
            Self::Weak(what) => write!(f, "NTLMv2 with 128-bit session security is required: {what}"),
            Self::WrongCredentials => f.write_str("the user is unknown or the password is wrong"),
            Self::Tampered => f.write_str("a message was changed in transit"),
            Self::NoMic => f.write_str("the client sends no MIC over its messages, but one is required"),
            Self::WrongTarget(target) => {
                write!(f, "the client's target is {target:?}, which is not this service")
            }
            Self::Anonymous => {
                f.write_str("the client gives no user name, and anonymous logins are disabled")
            }
            Self::Finished => f.write_str("the authentication has already ended"),
        }
    }
}

impl std::error::Error for Refusal {}
