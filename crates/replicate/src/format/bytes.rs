//! Integers and byte strings as they are stored. Fixed integers are big-endian; others are LEB128.

use vfs::Time;

#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.raw(&value.to_be_bytes());
    }

    pub(crate) fn int(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(low_bits(value) | 0x80);
            value >>= 7;
        }
        self.0.push(low_bits(value));
    }

    pub(crate) fn len(&mut self, value: usize) {
        self.int(value as u64);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.len(bytes.len());
        self.raw(bytes);
    }

    pub(crate) fn time(&mut self, time: Time) {
        self.raw(&time.seconds.to_be_bytes());
        self.u32(time.nanos);
    }
}

fn low_bits(value: u64) -> u8 {
    let [.., low] = value.to_be_bytes();
    low & 0x7f
}

/// Reads what [`Writer`] wrote. Every method is `None` at bytes that it cannot have written.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn raw(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn int(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn int32(&mut self) -> Option<u32> {
        u32::try_from(self.int()?).ok()
    }

    pub(crate) fn len(&mut self) -> Option<usize> {
        usize::try_from(self.int()?).ok()
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.len()?;
        self.raw(len)
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    pub(crate) fn time(&mut self) -> Option<Time> {
        let seconds = self.array().map(i64::from_be_bytes)?;
        let nanos = self.u32().filter(|&nanos| nanos < 1_000_000_000)?;
        Some(Time { seconds, nanos })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `value` if all bytes were read.
    pub(crate) fn end<T>(&self, value: T) -> Option<T> {
        self.is_empty().then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_come_back_and_overlong_ones_do_not() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut writer = Writer::default();
            writer.int(value);
            assert_eq!(Reader(&writer.0).int(), Some(value));
        }
        assert_eq!(Reader(&[0xff; 9]).int(), None);
        assert_eq!(Reader(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).int(), None);
    }

    #[test]
    fn lengths_past_the_end_are_refused() {
        assert_eq!(Reader(&[5, 1, 2]).bytes(), None);
        assert_eq!(Reader(&[2, 1, 2]).bytes(), Some(&[1, 2][..]));
    }
}
