//! The answer to a challenge: `NTLMv2_RESPONSE`, MS-NLMP §2.2.2.8, with `NTLMv2_CLIENT_CHALLENGE`, §2.2.2.7.

use super::pairs::Pairs;
use crate::refusal::{Malformed, Refusal};
use crate::time::FileTime;

/// Length of the answers of LM and NTLMv1 (MS-NLMP §2.2.2.6).
const OLD_BYTES: usize = 24;
const PROOF_BYTES: usize = 16;
/// Versions, reserved bytes, time, the client's challenge, reserved bytes.
const HEAD_BYTES: usize = 28;

/// An NTLMv2 answer.
pub(crate) struct Answer<'a> {
    /// `NTProofStr`.
    pub(crate) proof: &'a [u8; 16],
    /// What the proof covers besides the server's challenge.
    pub(crate) temp: &'a [u8],
    pub(crate) pairs: Pairs<'a>,
}

impl<'a> Answer<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Refusal> {
        if bytes.len() == OLD_BYTES {
            return Err(Refusal::Weak("the answer is that of NTLMv1"));
        }
        let (proof, temp) = bytes.split_first_chunk::<PROOF_BYTES>().ok_or(Malformed::ANSWER)?;
        let (head, pairs) = temp.split_at_checked(HEAD_BYTES).ok_or(Malformed::ANSWER)?;
        if head[..2] != [1, 1] {
            return Err(Malformed::ANSWER.into());
        }
        Ok(Self { proof, temp, pairs: Pairs::parse(pairs)? })
    }
}

/// What a client's proof covers besides the server's challenge: `temp` of MS-NLMP §3.3.2.
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
    fn answers_of_before_are_refused() {
        assert!(matches!(Answer::parse(&[1; OLD_BYTES]), Err(Refusal::Weak(_))));
        let good = [&[9; PROOF_BYTES][..], &temp(FileTime(1), [2; 8], &[0; 4])].concat();
        let answer = Answer::parse(&good).unwrap();
        assert_eq!((answer.proof, &answer.temp[8..16]), (&[9; 16], &1_u64.to_le_bytes()[..]));
        for length in 0..PROOF_BYTES + HEAD_BYTES + 4 {
            assert!(Answer::parse(&good[..length]).is_err(), "{length}");
        }
        let mut other = good;
        other[PROOF_BYTES] = 2;
        assert!(Answer::parse(&other).is_err());
    }
}
