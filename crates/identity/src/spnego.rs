//! SPNEGO: tokens by which client and server agree on a mechanism (RFC 4178 §4.2, MS-SPNG §2.2.1).

use crate::der::{self, Reader};
use crate::limits::{MECHANISM_LIST_BYTES_MAX, MECHANISMS_MAX};
use crate::refusal::{Malformed, Refusal};

/// `1.3.6.1.5.5.2`, SPNEGO itself.
const SPNEGO: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x02];
/// The field that a `NegTokenResp` is in.
const RESPONSE: u8 = 1;
/// What [MS-SPNG] §2.2.1 has as the name of whoever is asked for nothing in particular.
const HINT: &[u8] = b"not_defined_in_RFC4178@please_ignore";

/// A way to prove who one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mechanism {
    /// NTLM, `1.3.6.1.4.1.311.2.2.10`.
    Ntlm,
}

/// What this service offers, the best first. Kerberos comes before NTLM, once there is a directory.
pub(crate) const MECHANISMS: [Mechanism; 1] = [Mechanism::Ntlm];

impl Mechanism {
    fn oid(self) -> &'static [u8] {
        match self {
            Self::Ntlm => &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x02, 0x02, 0x0a],
        }
    }
}

/// How far a negotiation is: `negState`, RFC 4178 §4.2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NegState {
    AcceptCompleted = 0,
    AcceptIncomplete = 1,
    Reject = 2,
    RequestMic = 3,
}

/// `NegTokenInit`, RFC 4178 §4.2.1: what a client begins with.
#[derive(Debug)]
pub(crate) struct Init<'a> {
    /// `MechTypeList` as it is on the wire, which a MIC is made over.
    pub(crate) mechanisms: &'a [u8],
    /// The first token of the first mechanism.
    pub(crate) token: Option<&'a [u8]>,
}

/// `NegTokenResp`, RFC 4178 §4.2.2: whatever follows, in both directions.
#[derive(Debug, Default)]
pub(crate) struct Response<'a> {
    pub(crate) state: Option<NegState>,
    pub(crate) mechanism: Option<Mechanism>,
    pub(crate) token: Option<&'a [u8]>,
    pub(crate) mic: Option<&'a [u8]>,
}

impl<'a> Init<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Refusal> {
        let mut token = Reader::new(Reader::new(bytes).only(der::APPLICATION)?);
        if token.expect(der::OID)? != SPNEGO {
            return Err(Malformed::SPNEGO.into());
        }
        let mut fields = Reader::new(Reader::new(token.only(der::field(0))?).only(der::SEQUENCE)?);
        let mechanisms = fields.optional(der::field(0))?.ok_or(Malformed::SPNEGO)?;
        if mechanisms.len() > MECHANISM_LIST_BYTES_MAX {
            return Err(Refusal::TooMuch);
        }
        // What the client wants of the context: NTLM negotiates that by itself.
        _ = fields.field(1, der::BIT_STRING)?;
        // A MIC (or, in a NegTokenInit2, hints) may follow, which nobody sends before a mechanism is chosen.
        Ok(Self { mechanisms, token: fields.field(2, der::OCTET_STRING)? })
    }

    /// The first mechanism of the client's that is offered, and whether it is the client's first.
    pub(crate) fn choose(&self) -> Result<(Mechanism, bool), Refusal> {
        let mut list = Reader::new(Reader::new(self.mechanisms).only(der::SEQUENCE)?);
        for place in 0..MECHANISMS_MAX {
            if list.is_empty() {
                break;
            }
            if let Some(mechanism) = by_oid(list.expect(der::OID)?) {
                return Ok((mechanism, place == 0));
            }
        }
        Err(Refusal::NoMechanism)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut fields = der::element(der::field(0), self.mechanisms);
        if let Some(token) = self.token {
            fields.extend(der::field_of(2, der::OCTET_STRING, token));
        }
        wrapped(&fields)
    }
}

impl<'a> Response<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Refusal> {
        let mut fields =
            Reader::new(Reader::new(Reader::new(bytes).only(der::field(RESPONSE))?).only(der::SEQUENCE)?);
        let state = match fields.field(0, der::ENUMERATED)? {
            None => None,
            Some([0]) => Some(NegState::AcceptCompleted),
            Some([1]) => Some(NegState::AcceptIncomplete),
            Some([2]) => Some(NegState::Reject),
            Some([3]) => Some(NegState::RequestMic),
            Some(_) => return Err(Malformed::SPNEGO.into()),
        };
        let mechanism =
            fields.field(1, der::OID)?.map(|oid| by_oid(oid).ok_or(Refusal::NoMechanism)).transpose()?;
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
            fields.extend(der::field_of(0, der::ENUMERATED, &[state as u8]));
        }
        if let Some(mechanism) = self.mechanism {
            fields.extend(der::field_of(1, der::OID, mechanism.oid()));
        }
        if let Some(token) = self.token {
            fields.extend(der::field_of(2, der::OCTET_STRING, token));
        }
        if let Some(mic) = self.mic {
            fields.extend(der::field_of(3, der::OCTET_STRING, mic));
        }
        der::field_of(RESPONSE, der::SEQUENCE, &fields)
    }
}

/// The mechanisms that are offered, as a `MechTypeList`.
pub(crate) fn offered() -> Vec<u8> {
    let list: Vec<u8> =
        MECHANISMS.iter().flat_map(|mechanism| der::element(der::OID, mechanism.oid())).collect();
    der::element(der::SEQUENCE, &list)
}

/// What a server says before a client has said anything, in its answer to NEGOTIATE: `NegTokenInit2`, MS-SPNG §2.2.1.
pub fn hint() -> Vec<u8> {
    let mut fields = der::element(der::field(0), &offered());
    let name = der::field_of(0, der::GENERAL_STRING, HINT);
    fields.extend(der::field_of(3, der::SEQUENCE, &name));
    wrapped(&fields)
}

fn wrapped(fields: &[u8]) -> Vec<u8> {
    let mut token = der::element(der::OID, SPNEGO);
    token.extend(der::field_of(0, der::SEQUENCE, fields));
    der::element(der::APPLICATION, &token)
}

fn by_oid(oid: &[u8]) -> Option<Mechanism> {
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
    fn tokens_come_back() {
        let mechanisms = list(&[KERBEROS, Mechanism::Ntlm.oid()]);
        let bytes = Init { mechanisms: &mechanisms, token: Some(b"token") }.to_bytes();
        let init = Init::parse(&bytes).unwrap();
        assert_eq!((init.mechanisms, init.token), (&*mechanisms, Some(&b"token"[..])));
        assert_eq!(init.choose().unwrap(), (Mechanism::Ntlm, false));
        let whole = Response {
            state: Some(NegState::RequestMic),
            mechanism: Some(Mechanism::Ntlm),
            token: Some(b"t"),
            mic: Some(b"m"),
        };
        let bytes = whole.to_bytes();
        let back = Response::parse(&bytes).unwrap();
        assert_eq!((back.state, back.mechanism), (whole.state, whole.mechanism));
        assert_eq!((back.token, back.mic), (whole.token, whole.mic));
        assert!(Response::parse(&Response::default().to_bytes()).unwrap().token.is_none());
    }

    #[test]
    fn the_hint_offers_ntlm() {
        let bytes = hint();
        assert_eq!(Init::parse(&bytes).unwrap().choose().unwrap(), (Mechanism::Ntlm, true));
        assert!(bytes.ends_with(HINT));
    }

    #[test]
    fn lists_are_bounded_and_without_ours_refused() {
        let init = |mechanisms: &[u8]| {
            let bytes = Init { mechanisms, token: None }.to_bytes();
            Init::parse(&bytes).and_then(|init| init.choose())
        };
        assert_eq!(init(&list(&[])), Err(Refusal::NoMechanism));
        assert_eq!(init(&list(&[KERBEROS])), Err(Refusal::NoMechanism));
        let mut many = vec![KERBEROS; MECHANISMS_MAX - 1];
        many.push(Mechanism::Ntlm.oid());
        assert!(init(&list(&many)).is_ok());
        many.insert(0, KERBEROS);
        assert_eq!(init(&list(&many)), Err(Refusal::NoMechanism));
        assert_eq!(init(&list(&[&[0; MECHANISM_LIST_BYTES_MAX]])), Err(Refusal::TooMuch));
        assert!(init(b"x").is_err());
    }

    #[test]
    fn whatever_is_cut_off_is_refused() {
        let bytes = hint();
        for length in 0..bytes.len() {
            assert!(Init::parse(&bytes[..length]).is_err(), "{length}");
        }
        let bytes = Response { mic: Some(&[0; 16]), ..Response::default() }.to_bytes();
        for length in 0..bytes.len() {
            assert!(Response::parse(&bytes[..length]).is_err(), "{length}");
        }
    }
}
