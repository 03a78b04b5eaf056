//! SPNEGO: tokens by which client and server agree on a mechanism (RFC 4178 §4.2, MS-SPNG §2.2.1).

use crate::der::{self, Reader};
use crate::limits::{MECHANISM_LIST_BYTES_MAX, MECHANISMS_MAX};
use crate::refusal::{Malformed, Refusal};

/// `1.3.6.1.5.5.2`, SPNEGO itself.
const SPNEGO: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x02];
/// The field that contains a `NegTokenResp`.
const RESPONSE_TAG: u8 = 1;
/// The placeholder for `hintName`, MS-SPNG §2.2.1.
const HINT_NAME: &[u8] = b"not_defined_in_RFC4178@please_ignore";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mechanism {
    /// NTLM, `1.3.6.1.4.1.311.2.2.10`.
    Ntlm,
}

/// The supported mechanisms, the best first. Kerberos will precede NTLM once a directory is supported.
pub(crate) const MECHANISMS: [Mechanism; 1] = [Mechanism::Ntlm];

impl Mechanism {
    fn oid(self) -> &'static [u8] {
        match self {
            Self::Ntlm => &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x02, 0x02, 0x0a],
        }
    }
}

/// `negState`, RFC 4178 §4.2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NegState {
    AcceptCompleted = 0,
    AcceptIncomplete = 1,
    Reject = 2,
    RequestMic = 3,
}

/// `NegTokenInit`, RFC 4178 §4.2.1: the client's first token.
#[derive(Debug)]
pub(crate) struct NegTokenInit<'a> {
    /// `MechTypeList` as on the wire, the input of the MIC.
    pub(crate) mechanisms: &'a [u8],
    /// The first token of the client's preferred mechanism.
    pub(crate) token: Option<&'a [u8]>,
}

/// `NegTokenResp`, RFC 4178 §4.2.2: every later token, in both directions.
#[derive(Debug, Default)]
pub(crate) struct NegTokenResp<'a> {
    pub(crate) state: Option<NegState>,
    pub(crate) mechanism: Option<Mechanism>,
    pub(crate) token: Option<&'a [u8]>,
    pub(crate) mic: Option<&'a [u8]>,
}

impl<'a> NegTokenInit<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Refusal> {
        let mut token = Reader::new(Reader::new(bytes).only(der::APPLICATION_0)?);
        if token.expect(der::OID)? != SPNEGO {
            return Err(Malformed::SPNEGO.into());
        }
        let mut fields = Reader::new(Reader::new(token.only(der::context_tag(0))?).only(der::SEQUENCE)?);
        let mechanisms = fields.optional(der::context_tag(0))?.ok_or(Malformed::SPNEGO)?;
        if mechanisms.len() > MECHANISM_LIST_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        // `reqFlags`: NTLM negotiates these itself.
        _ = fields.field(1, der::BIT_STRING)?;
        // A MIC (or hints, in a NegTokenInit2) may follow; no client sends one before a mechanism is chosen.
        Ok(Self { mechanisms, token: fields.field(2, der::OCTET_STRING)? })
    }

    /// Chooses the client's first supported mechanism. Returns it with whether it is the client's preferred one.
    pub(crate) fn choose(&self) -> Result<(Mechanism, bool), Refusal> {
        let mut list = Reader::new(Reader::new(self.mechanisms).only(der::SEQUENCE)?);
        for place in 0..MECHANISMS_MAX {
            if list.is_empty() {
                break;
            }
            if let Some(mechanism) = mechanism_by_oid(list.expect(der::OID)?) {
                return Ok((mechanism, place == 0));
            }
        }
        Err(Refusal::NoMechanism)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut fields = der::element(der::context_tag(0), self.mechanisms);
        if let Some(token) = self.token {
            fields.extend(der::context_field(2, der::OCTET_STRING, token));
        }
        wrap_initial_token(&fields)
    }
}

impl<'a> NegTokenResp<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Refusal> {
        let mut fields = Reader::new(
            Reader::new(Reader::new(bytes).only(der::context_tag(RESPONSE_TAG))?).only(der::SEQUENCE)?,
        );
        let state = match fields.field(0, der::ENUMERATED)? {
            None => None,
            Some([0]) => Some(NegState::AcceptCompleted),
            Some([1]) => Some(NegState::AcceptIncomplete),
            Some([2]) => Some(NegState::Reject),
            Some([3]) => Some(NegState::RequestMic),
            Some(_) => return Err(Malformed::SPNEGO.into()),
        };
        let mechanism = fields
            .field(1, der::OID)?
            .map(|oid| mechanism_by_oid(oid).ok_or(Refusal::NoMechanism))
            .transpose()?;
        let token = fields.field(2, der::OCTET_STRING)?;
        let mic = fields.field(3, der::OCTET_STRING)?;
        if fields.is_empty() {
            Ok(Self { state, mechanism, token, mic })
        } else {
            Err(Malformed::SPNEGO.into())
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut fields = Vec::new();
        if let Some(state) = self.state {
            fields.extend(der::context_field(0, der::ENUMERATED, &[state as u8]));
        }
        if let Some(mechanism) = self.mechanism {
            fields.extend(der::context_field(1, der::OID, mechanism.oid()));
        }
        if let Some(token) = self.token {
            fields.extend(der::context_field(2, der::OCTET_STRING, token));
        }
        if let Some(mic) = self.mic {
            fields.extend(der::context_field(3, der::OCTET_STRING, mic));
        }
        der::context_field(RESPONSE_TAG, der::SEQUENCE, &fields)
    }
}

pub(crate) fn mechanism_list() -> Vec<u8> {
    let list: Vec<u8> =
        MECHANISMS.iter().flat_map(|mechanism| der::element(der::OID, mechanism.oid())).collect();
    der::element(der::SEQUENCE, &list)
}

/// `NegTokenInit2`, MS-SPNG §2.2.1: the server's hint in its response to NEGOTIATE, before the client's first token.
pub fn neg_token_init2() -> Vec<u8> {
    let mut fields = der::element(der::context_tag(0), &mechanism_list());
    let name = der::context_field(0, der::GENERAL_STRING, HINT_NAME);
    fields.extend(der::context_field(3, der::SEQUENCE, &name));
    wrap_initial_token(&fields)
}

fn wrap_initial_token(fields: &[u8]) -> Vec<u8> {
    let mut token = der::element(der::OID, SPNEGO);
    token.extend(der::context_field(0, der::SEQUENCE, fields));
    der::element(der::APPLICATION_0, &token)
}

fn mechanism_by_oid(oid: &[u8]) -> Option<Mechanism> {
    MECHANISMS.into_iter().find(|mechanism| mechanism.oid() == oid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERBEROS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02];

    fn list(oids: &[&[u8]]) -> Vec<u8> {
        der::element(
            der::SEQUENCE,
            &oids.iter().flat_map(|oid| der::element(der::OID, oid)).collect::<Vec<_>>(),
        )
    }

    #[test]
    fn tokens_round_trip() {
        let mechanisms = list(&[KERBEROS, Mechanism::Ntlm.oid()]);
        let bytes = NegTokenInit { mechanisms: &mechanisms, token: Some(b"token") }.to_bytes();
        let init = NegTokenInit::parse(&bytes).unwrap();
        assert_eq!((init.mechanisms, init.token), (&*mechanisms, Some(&b"token"[..])));
        assert_eq!(init.choose().unwrap(), (Mechanism::Ntlm, false));
        let whole = NegTokenResp {
            state: Some(NegState::RequestMic),
            mechanism: Some(Mechanism::Ntlm),
            token: Some(b"t"),
            mic: Some(b"m"),
        };
        let bytes = whole.to_bytes();
        let back = NegTokenResp::parse(&bytes).unwrap();
        assert_eq!((back.state, back.mechanism), (whole.state, whole.mechanism));
        assert_eq!((back.token, back.mic), (whole.token, whole.mic));
        assert!(NegTokenResp::parse(&NegTokenResp::default().to_bytes()).unwrap().token.is_none());
    }

    #[test]
    fn hint_offers_ntlm() {
        let bytes = neg_token_init2();
        assert_eq!(NegTokenInit::parse(&bytes).unwrap().choose().unwrap(), (Mechanism::Ntlm, true));
        assert!(bytes.ends_with(HINT_NAME));
    }

    #[test]
    fn mechanism_list_too_long_or_without_ntlm_is_refused() {
        let init = |mechanisms: &[u8]| {
            let bytes = NegTokenInit { mechanisms, token: None }.to_bytes();
            NegTokenInit::parse(&bytes).and_then(|init| init.choose())
        };
        assert_eq!(init(&list(&[])), Err(Refusal::NoMechanism));
        assert_eq!(init(&list(&[KERBEROS])), Err(Refusal::NoMechanism));
        let mut many = vec![KERBEROS; MECHANISMS_MAX - 1];
        many.push(Mechanism::Ntlm.oid());
        assert!(init(&list(&many)).is_ok());
        many.insert(0, KERBEROS);
        assert_eq!(init(&list(&many)), Err(Refusal::NoMechanism));
        assert_eq!(init(&list(&[&[0; MECHANISM_LIST_BYTES_MAX]])), Err(Refusal::TooLarge));
        assert!(init(b"x").is_err());
    }

    #[test]
    fn truncated_message_is_refused() {
        let bytes = neg_token_init2();
        for length in 0..bytes.len() {
            assert!(NegTokenInit::parse(&bytes[..length]).is_err(), "{length}");
        }
        let bytes = NegTokenResp { mic: Some(&[0; 16]), ..NegTokenResp::default() }.to_bytes();
        for length in 0..bytes.len() {
            assert!(NegTokenResp::parse(&bytes[..length]).is_err(), "{length}");
        }
    }
}
