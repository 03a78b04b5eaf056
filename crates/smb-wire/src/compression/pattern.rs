//! `Pattern_V1`, MS-SMB2 §3.1.4.4.1: one byte repeated at the start or the end of the data.

use crate::transform::PatternPayload;

const REPETITIONS_MIN: usize = 64;

/// The pattern at the start of `bytes`.
pub fn forward(bytes: &[u8]) -> Option<PatternPayload> {
    let pattern = *bytes.first()?;
    to_payload(pattern, bytes.iter().take_while(|byte| **byte == pattern).count())
}

/// The pattern at the end of `bytes`.
pub fn backward(bytes: &[u8]) -> Option<PatternPayload> {
    let pattern = *bytes.last()?;
    to_payload(pattern, bytes.iter().rev().take_while(|byte| **byte == pattern).count())
}

fn to_payload(pattern: u8, count: usize) -> Option<PatternPayload> {
    let repetitions = u32::try_from(count).ok().filter(|_| count >= REPETITIONS_MIN)?;
    Some(PatternPayload { pattern, repetitions })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_needs_64_bytes() {
        let bytes = [&[1; 63][..], &[2; 100], &[3; 64]].concat();
        assert_eq!(forward(&bytes), None);
        assert_eq!(backward(&bytes), Some(PatternPayload { pattern: 3, repetitions: 64 }));
        assert_eq!(forward(&bytes[63..]), Some(PatternPayload { pattern: 2, repetitions: 100 }));
        assert_eq!(backward(&bytes[..bytes.len() - 1]), None);
        assert_eq!((forward(&[]), backward(&[])), (None, None));
        assert_eq!(forward(&[0; 1000]), backward(&[0; 1000]));
    }
}
