//! Signatures of several replies together: AES-CMAC of several messages takes little longer than of one.

use smb_wire::crypto::signing::{Key, sign_all};
use std::ops::Range;
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct UnsignedReplies(Vec<(Arc<Key>, Range<usize>)>);

impl UnsignedReplies {
    /// Adds a reply after those already added.
    pub(crate) fn push(&mut self, key: &Arc<Key>, at: Range<usize>) {
        debug_assert!(self.0.last().is_none_or(|(_, previous)| previous.end <= at.start), "in their order");
        self.0.push((Arc::clone(key), at));
    }

    /// Signs all replies, and forgets them.
    pub(crate) fn sign(&mut self, out: &mut [u8]) {
        match &*self.0 {
            [] => return,
            [(key, at)] => key.sign(&mut out[at.clone()]),
            several => sign_several(several, out),
        }
        self.0.clear();
    }
}

fn sign_several(replies: &[(Arc<Key>, Range<usize>)], mut rest: &mut [u8]) {
    let mut messages = Vec::with_capacity(replies.len());
    let mut begin = 0;
    for (key, at) in replies {
        let (message, behind) = rest[at.start - begin..].split_at_mut(at.len());
        (rest, begin) = (behind, at.end);
        messages.push((&**key, message));
    }
    sign_all(&mut messages);
}

#[cfg(test)]
mod tests {
    use super::*;
    use smb_wire::header::{HEADER_SIZE, SIGNATURE_OFFSET};
    use smb_wire::negotiate::SigningAlgorithm;

    #[test]
    fn deferred_replies_are_signed_in_place_once() {
        let key = |byte| Arc::new(Key::new(SigningAlgorithm::AES_CMAC, &[byte; 16]).unwrap());
        let keys = [key(1), key(1), key(2)];
        let mut out = vec![7; 1000];
        let ranges = [4..104, 108..372, 372..900];
        let mut unsigned = UnsignedReplies::default();
        for (key, at) in keys.iter().zip(&ranges) {
            unsigned.push(key, at.clone());
        }
        unsigned.sign(&mut out);
        for (key, at) in keys.iter().zip(&ranges) {
            assert_eq!(key.verify(&out[at.clone()]), Ok(()), "{at:?}");
        }
        let between: Vec<&u8> = out[..4].iter().chain(&out[104..108]).chain(&out[900..]).collect();
        assert!(between.iter().all(|&&byte| byte == 7), "nothing else is changed");
        out[4 + SIGNATURE_OFFSET..4 + HEADER_SIZE].fill(0);
        unsigned.sign(&mut out);
        assert!(keys[0].verify(&out[4..104]).is_err(), "they were forgotten");
        unsigned.push(&keys[0], 4..104);
        unsigned.sign(&mut out);
        assert_eq!(keys[0].verify(&out[4..104]), Ok(()));
    }
}
