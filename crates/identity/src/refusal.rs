//! Why somebody is not let in.

use std::fmt;

/// Why a token is refused. The words are for the log of the server, not for the client, who learns only that it is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The bytes are no token.
    Malformed(Malformed),
    /// The token is longer than is taken, or one too many.
    TooMuch,
    /// The client proposes no mechanism that is offered.
    NoMechanism,
    /// The client wants less than NTLMv2 with its protections.
    Weak(&'static str),
    /// The user is unknown, or the answer to the challenge is not that of the user's password.
    WrongCredentials,
    /// The messages are not those that the client sent and received.
    Tampered,
    /// The client gives no MIC over its messages.
    NoMic,
    /// The client believes that it talks to somebody else.
    OtherTarget(String),
    /// The client gives no name, and nobody without one is let in.
    Anonymous,
    /// The exchange has ended before.
    Finished,
}

/// What is wrong with bytes that are no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(&'static str);

impl Malformed {
    pub(crate) const DER: Self = Self("an element of DER is cut off or is not the one expected");
    pub(crate) const SPNEGO: Self = Self("it is not the SPNEGO token that comes now");
    pub(crate) const NTLM: Self = Self("it is not the NTLM message that comes now");
    pub(crate) const FIELD: Self =
        Self("a field of an NTLM message lies outside of the message or is too long");
    pub(crate) const NAME: Self = Self("a name is not UTF-16");
    pub(crate) const ANSWER: Self = Self("the NTLMv2 answer is cut off or has unordered contents");
    pub(crate) const KEY: Self = Self("the session key has not 16 bytes");
}

impl Refusal {
    /// Whether the bytes are no token, rather than one that proves nothing.
    pub fn is_malformed(&self) -> bool {
        matches!(self, Self::Malformed(_) | Self::TooMuch)
    }
}

impl From<Malformed> for Refusal {
    fn from(what: Malformed) -> Self {
        Self::Malformed(what)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => write!(f, "the token is malformed: {}", what.0),
            Self::TooMuch => f.write_str("the token is too long, or one too many"),
            Self::NoMechanism => f.write_str("the client proposes no mechanism that is offered: NTLM"),
            Self::Weak(what) => write!(f, "NTLMv2 with 128-bit session security is required: {what}"),
            Self::WrongCredentials => f.write_str("the user is unknown or the password is wrong"),
            Self::Tampered => f.write_str("a message was changed on its way"),
            Self::NoMic => f.write_str("the client gives no MIC over its messages, and one is required"),
            Self::OtherTarget(target) => {
                write!(f, "the client means to talk to {target:?}, which is not this service")
            }
            Self::Anonymous => f.write_str("the client gives no name, and anonymous clients are refused"),
            Self::Finished => f.write_str("the authentication has ended before"),
        }
    }
}

impl std::error::Error for Refusal {}
