//! A transform that detects every byte that it does not see exactly once and in order.

use std::os::fd::BorrowedFd;
use transport::{KernelOffload, Malformed, Plaintext, Transform};
use vfs::Protection;

/// A cipher of records: a length and as many bytes, each added to a running key. It fails unless every byte passes
/// through it once and in order.
#[derive(Default)]
pub(super) struct Cipher {
    pub(super) sealed: u8,
    pub(super) opened: u8,
    pub(super) kernel_bytes_max: Option<u64>,
    pub(super) never_agrees: bool,
}

impl Cipher {
    pub(super) fn open_records(&mut self, wire: &[u8], plain: &mut Vec<u8>) -> usize {
        let mut used = 0;
        while let Some((&len, rest)) = wire[used..].split_first() {
            let Some(record) = rest.get(..usize::from(len)) else { break };
            for &byte in record {
                plain.push(byte.wrapping_sub(self.opened));
                self.opened = self.opened.wrapping_add(7);
            }
            used += 1 + record.len();
        }
        used
    }
}

impl Transform for Cipher {
    fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), Malformed> {
        wire.clear();
        for record in plain.chunks(100) {
            wire.push(u8::try_from(record.len()).unwrap());
            for &byte in record {
                wire.push(byte.wrapping_add(self.sealed));
                self.sealed = self.sealed.wrapping_add(7);
            }
        }
        Ok(())
    }

    fn open(&mut self, wire: &mut [u8], plain: &mut [u8], _: &mut Vec<u8>) -> Result<Plaintext, Malformed> {
        let mut bytes = Vec::new();
        let used = self.open_records(wire, &mut bytes);
        plain[..bytes.len()].copy_from_slice(&bytes);
        Ok(Plaintext { used, plain: bytes.len(), is_closed: false })
    }

    fn close(&mut self, _: &mut Vec<u8>) {}

    fn protection(&self) -> Option<Protection> {
        (!self.never_agrees).then_some(Protection::Encrypted)
    }

    fn offload_to_kernel(self: Box<Self>, _: BorrowedFd<'_>) -> KernelOffload {
        match self.kernel_bytes_max {
            Some(most) => KernelOffload::Done(most),
            None => KernelOffload::Declined(self),
        }
    }
}
