//! Framing: a zero byte and a three-byte length before each message (MS-SMB2 §2.1).

use crate::limits::MESSAGE_BYTES_MAX;
use transport::{Frame, Malformed};

pub(crate) const FRAMING: usize = 4;

/// Recognizes the frame at the start of the received bytes.
pub(crate) fn parse(have: &[u8]) -> Result<Frame, Malformed> {
    let Some(head) = have.first_chunk::<FRAMING>() else {
        return Ok(Frame::Incomplete { framing: FRAMING, len: 0 });
    };
    let len = usize::try_from(u32::from_be_bytes(*head)).unwrap_or(usize::MAX);
    if head[0] != 0 {
        return Err(Malformed("the first byte of a message's length is not 0"));
    }
    if len == 0 || len > MESSAGE_BYTES_MAX {
        return Err(Malformed("a message that is empty or too long"));
    }
    let end = FRAMING + len;
    let is_whole = have.len() >= end;
    Ok(if is_whole { Frame::Message(FRAMING..end) } else { Frame::Incomplete { framing: FRAMING, len } })
}

/// Writes the length of the message from `start` to the end of `out`, plus `piped` bytes that follow it.
pub(crate) fn finish(out: &mut [u8], start: usize, piped: usize) {
    let len = u32::try_from(out.len() - start - FRAMING + piped).unwrap_or(u32::MAX);
    out[start..start + FRAMING].copy_from_slice(&len.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_longer_than_the_maximum_is_malformed() {
        assert_eq!(parse(&[0, 0, 0]), Ok(Frame::Incomplete { framing: 4, len: 0 }));
        assert_eq!(parse(&[0, 0, 0, 2, 7]), Ok(Frame::Incomplete { framing: 4, len: 2 }));
        assert_eq!(parse(&[0, 0, 0, 2, 7, 8, 9]), Ok(Frame::Message(4..6)));
        assert!(parse(&[0; 4]).is_err() && parse(&[1, 0, 0, 2, 7, 8]).is_err());
        let longest = u32::try_from(MESSAGE_BYTES_MAX).unwrap();
        assert!(parse(&longest.to_be_bytes()).is_ok() && parse(&(longest + 1).to_be_bytes()).is_err());
        let mut out = vec![9, 0, 0, 0, 0, 1, 2, 3];
        finish(&mut out, 1, 0);
        assert_eq!(out, [9, 0, 0, 0, 3, 1, 2, 3]);
        finish(&mut out, 1, 300);
        assert_eq!(out, [9, 0, 0, 1, 0x2f, 1, 2, 3]);
    }
}
