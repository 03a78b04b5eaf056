//! Record marking, RFC 5531 §11: splits a stream into calls. Pure.

use crate::limits::RECORD_BYTES_MAX;
use nfs_wire::rpc::RecordMark;
use transport::{Frame, Malformed};

/// The frame at the start of `bytes`. `in_parts` is true after a fragment of the same record.
/// Nearly every client sends a record in one fragment.
#[inline]
pub(crate) fn parse_frame(bytes: &[u8], in_parts: bool) -> Result<Frame, Malformed> {
    let framing = RecordMark::SIZE;
    let Some((mark, _)) = bytes.split_first_chunk::<{ RecordMark::SIZE }>() else {
        return Ok(Frame::Incomplete { framing, len: 0 });
    };
    let mark = RecordMark::from_word(u32::from_be_bytes(*mark));
    let len = mark.length as usize;
    if len > RECORD_BYTES_MAX {
        return Err(Malformed("record above the limit"));
    }
    if in_parts || !mark.last {
        return Ok(Frame::Part { framing, len, is_last: mark.last });
    }
    let end = framing + len;
    Ok(if bytes.len() < end { Frame::Incomplete { framing, len } } else { Frame::Message(framing..end) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(last: bool, length: u32) -> [u8; 4] {
        RecordMark { last, length }.to_word().to_be_bytes()
    }

    #[test]
    fn finds_the_ends_of_records() {
        assert_eq!(parse_frame(&[], false), Ok(Frame::Incomplete { framing: 4, len: 0 }));
        assert_eq!(parse_frame(&[0x80, 0, 0], false), Ok(Frame::Incomplete { framing: 4, len: 0 }));
        let record = [&mark(true, 3)[..], b"abc", b"rest"].concat();
        assert_eq!(parse_frame(&record, false), Ok(Frame::Message(4..7)));
        assert_eq!(parse_frame(&record[..6], false), Ok(Frame::Incomplete { framing: 4, len: 3 }));
        assert_eq!(parse_frame(&record, true), Ok(Frame::Part { framing: 4, len: 3, is_last: true }));
        assert_eq!(
            parse_frame(&mark(false, 0), false),
            Ok(Frame::Part { framing: 4, len: 0, is_last: false })
        );
        assert_eq!(
            parse_frame(&mark(false, 9), false),
            Ok(Frame::Part { framing: 4, len: 9, is_last: false }),
            "before its bytes are there"
        );
        assert!(parse_frame(&mark(true, u32::try_from(RECORD_BYTES_MAX).unwrap() + 1), false).is_err());
    }
}
