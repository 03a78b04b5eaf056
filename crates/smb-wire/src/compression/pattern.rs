//! `Pattern_V1`: the same byte again and again at the start or the end of what is sent, MS-SMB2 §3.1.4.4.1.

use crate::transform::PatternPayload;

/// Fewer bytes are no pattern.
const REPETITIONS_MIN: usize = 64;

/// The byte that `bytes` begin with, as often as it comes, if that makes a pattern.
pub fn forward(bytes: &[u8]) -> Option<PatternPayload> {
    let pattern = *bytes.first()?;
    found(pattern, bytes.iter().take_while(|byte| **byte == pattern).count())
}

/// The same of the byte that they end with.
pub fn backward(bytes: &[u8]) -> Option<PatternPayload> {
    let pattern = *bytes.last()?;
    found(pattern, bytes.iter().rev().take_while(|byte| **byte == pattern).count())
}

fn found(pattern: u8, count: usize) -> Option<PatternPayload> {
    let repetitions = u32::try_from(count).ok().filter(|_| count >= REPETITIONS_MIN)?;
    Some(PatternPayload { pattern, repetitions })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_64_bytes_at_least() {
        let bytes = [&[1; 63][..], &[2; 100], &[3; 64]].concat();
        assert_eq!(forward(&bytes), None);
        assert_eq!(backward(&bytes), Some(PatternPayload { pattern: 3, repetitions: 64 }));
        assert_eq!(forward(&bytes[63..]), Some(PatternPayload { pattern: 2, repetitions: 100 }));
        assert_eq!(backward(&bytes[..bytes.len() - 1]), None);
        assert_eq!((forward(&[]), backward(&[])), (None, None));
        assert_eq!(forward(&[0; 1000]), backward(&[0; 1000]));
    }
}
