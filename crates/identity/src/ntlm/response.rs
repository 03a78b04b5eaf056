//! The response to a challenge: `NTLMv2_RESPONSE`, MS-NLMP §2.2.2.8, with `NTLMv2_CLIENT_CHALLENGE`, §2.2.2.7.

use super::av_pairs::AvPairs;
use crate::refusal::{Malformed, Refusal};
use crate::time::FileTime;

/// Length of the LM and NTLMv1 responses (MS-NLMP §2.2.2.6).
const NTLMV1_RESPONSE_BYTES: usize = 24;
const PROOF_BYTES: usize = 16;
/// Versions, reserved bytes, time, the client's challenge, reserved bytes.
const HEADER_BYTES: usize = 28;

/// `NTLMv2_RESPONSE`, MS-NLMP §2.2.2.8.
pub(crate) struct Ntlmv2Response<'a> {
    /// `NTProofStr`.
    pub(crate) proof: &'a [u8; 16],
    /// The proof's other input, besides the server's challenge.
    pub(crate) temp: &'a [u8],
    pub(crate) pairs: AvPairs<'a>,
}

impl<'a> Ntlmv2Response<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Refusal> {
        if bytes.len() == NTLMV1_RESPONSE_BYTES {
            return Err(Refusal::Weak("the client sent an NTLMv1 response"));
        }
        let (proof, temp) = bytes.split_first_chunk::<PROOF_BYTES>().ok_or(Malformed::RESPONSE)?;
        let (head, pairs) = temp.split_at_checked(HEADER_BYTES).ok_or(Malformed::RESPONSE)?;
        if head[..2] != [1, 1] {
            return Err(Malformed::RESPONSE.into());
        }
        Ok(Self { proof, temp, pairs: AvPairs::parse(pairs)? })
    }
}

/// `temp` of MS-NLMP §3.3.2: the input of the proof besides the server's challenge.
pub(crate) fn temp(time: FileTime, client_challenge: [u8; 8], pairs: &[u8]) -> Vec<u8> {
    let mut bytes = vec![1, 1, 0, 0, 0, 0, 0, 0];
    bytes.extend(time.0.to_le_bytes());
    bytes.extend(client_challenge);
    bytes.extend([0; 4]);
    bytes.extend_from_slice(pairs);
    bytes.extend([0; 4]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ntlmv1_and_truncated_responses_are_refused() {
        assert!(matches!(Ntlmv2Response::parse(&[1; NTLMV1_RESPONSE_BYTES]), Err(Refusal::Weak(_))));
        let good = [&[9; PROOF_BYTES][..], &temp(FileTime(1), [2; 8], &[0; 4])].concat();
        let response = Ntlmv2Response::parse(&good).unwrap();
        assert_eq!((response.proof, &response.temp[8..16]), (&[9; 16], &1_u64.to_le_bytes()[..]));
        for length in 0..PROOF_BYTES + HEADER_BYTES + 4 {
            assert!(Ntlmv2Response::parse(&good[..length]).is_err(), "{length}");
        }
        let mut other = good;
        other[PROOF_BYTES] = 2;
        assert!(Ntlmv2Response::parse(&other).is_err());
    }
}
