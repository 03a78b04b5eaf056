//! Messages that arrive in several parts.

use crate::limits::PARTS_MAX;
use crate::message::Malformed;

/// The parts of one message, assembled as their bytes arrive.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    /// Received bytes, in pieces that are never moved: growing a single piece would leave freed memory behind each
    /// time.
    pieces: Vec<Vec<u8>>,
    length: usize,
    memory_bytes: usize,
    parts: u32,
    /// The bytes that are missing from the current part, and whether that part is the message's last.
    open: Option<(usize, bool)>,
}

/// The smallest allocation: tiny parts must not cost more memory than they carry.
const PIECE_BYTES_MIN: usize = 4096;

impl Assembly {
    pub(crate) fn is_partial(&self) -> bool {
        self.parts > 0
    }

    pub(crate) fn is_inside(&self) -> bool {
        self.open.is_some()
    }

    pub(crate) fn buffered_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// Begins a part of `length` bytes. All parts of a message together have at most `message_bytes_max`.
    pub(crate) fn begin(
        &mut self,
        length: usize,
        last: bool,
        message_bytes_max: usize,
    ) -> Result<(), Malformed> {
        self.parts += 1;
        if self.length + length > message_bytes_max || self.parts > PARTS_MAX {
            return Err(Malformed("message above the limit"));
        }
        self.open = Some((length, last));
        Ok(())
    }

    /// Begins a message of `length` bytes for which memory is reserved.
    pub(crate) fn begin_whole(&mut self, length: usize) {
        self.parts += 1;
        self.memory_bytes += length;
        self.pieces.push(Vec::with_capacity(length));
        self.open = Some((length, true));
    }

    /// Takes the bytes of the current part from the front of `bytes`. Returns their number, and the message if it is
    /// complete.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> (usize, Option<Vec<u8>>) {
        let Some((lacks, last)) = self.open else { return (0, None) };
        let taken = lacks.min(bytes.len());
        self.append(&bytes[..taken]);
        self.open = (taken < lacks).then_some((lacks - taken, last));
        if self.open.is_some() || !last {
            return (taken, None);
        }
        let mut pieces = std::mem::take(self).pieces;
        let whole = if pieces.len() == 1 { pieces.pop() } else { Some(pieces.concat()) };
        (taken, whole)
    }

    fn append(&mut self, bytes: &[u8]) {
        self.length += bytes.len();
        match self.pieces.last_mut() {
            Some(last) if last.capacity() - last.len() >= bytes.len() => last.extend_from_slice(bytes),
            _ => {
                let mut piece = Vec::with_capacity(bytes.len().max(PIECE_BYTES_MIN));
                piece.extend_from_slice(bytes);
                self.memory_bytes += piece.capacity();
                self.pieces.push(piece);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 1 << 20;

    /// Adds a part that has arrived completely.
    fn add(assembly: &mut Assembly, part: &[u8], last: bool) -> Result<Option<Vec<u8>>, Malformed> {
        assembly.begin(part.len(), last, MOST)?;
        let (taken, whole) = assembly.take(part);
        assert_eq!((taken, assembly.is_inside()), (part.len(), false));
        Ok(whole)
    }

    #[test]
    fn parts_are_assembled_into_one_message() {
        let mut assembly = Assembly::default();
        assert_eq!(add(&mut assembly, b"ab", false), Ok(None));
        assert!(assembly.is_partial());
        assert_eq!(add(&mut assembly, b"", false), Ok(None));
        assert_eq!(add(&mut assembly, b"c", true), Ok(Some(b"abc".to_vec())));
        assert!(!assembly.is_partial());
    }

    #[test]
    fn a_message_of_known_length_is_never_moved() {
        let mut assembly = Assembly::default();
        assembly.begin_whole(4);
        assert_eq!(assembly.take(b"ab"), (2, None));
        let place = assembly.pieces[0].as_ptr();
        let (taken, whole) = assembly.take(b"cdef");
        let whole = whole.unwrap();
        assert_eq!((taken, &whole[..], whole.as_ptr()), (2, &b"abcd"[..], place));
    }

    #[test]
    fn a_part_in_pieces_is_assembled_and_the_following_bytes_remain() {
        let mut assembly = Assembly::default();
        assembly.begin(5, true, MOST).unwrap();
        assert_eq!(assembly.take(b"ab"), (2, None));
        assert_eq!(assembly.take(b""), (0, None));
        assert!(assembly.is_inside());
        assert!(assembly.buffered_bytes() >= 2);
        assert_eq!(assembly.take(b"cde next"), (3, Some(b"abcde".to_vec())));
        assert!(!assembly.is_inside() && !assembly.is_partial());
        assert_eq!(assembly.take(b" next"), (0, None));
    }

    #[test]
    fn the_length_and_the_number_of_parts_are_bounded() {
        let mut assembly = Assembly::default();
        assert_eq!(add(&mut assembly, &vec![0; MOST], false), Ok(None));
        assert!(assembly.begin(1, true, MOST).is_err());
        let mut empty = Assembly::default();
        let refused = (0..=PARTS_MAX).position(|_| add(&mut empty, b"", false).is_err());
        assert_eq!(refused, Some(PARTS_MAX as usize));
    }
}
