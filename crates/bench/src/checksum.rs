//! CRC-32 (ISO-HDLC, as in IEEE 802.3 and gzip), independent of the checksum in [`crate::pattern`].

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crc32(u32);

impl Default for Crc32 {
    fn default() -> Self {
        Self(!0)
    }
}

impl Crc32 {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        let (blocks, rest) = bytes.as_chunks::<8>();
        for block in blocks {
            let [a, b, c, d] =
                (self.0 ^ u32::from_le_bytes([block[0], block[1], block[2], block[3]])).to_le_bytes();
            // Written out: an iterator is ten times slower without optimization.
            self.0 = TABLES[7][usize::from(a)]
                ^ TABLES[6][usize::from(b)]
                ^ TABLES[5][usize::from(c)]
                ^ TABLES[4][usize::from(d)]
                ^ TABLES[3][usize::from(block[4])]
                ^ TABLES[2][usize::from(block[5])]
                ^ TABLES[1][usize::from(block[6])]
                ^ TABLES[0][usize::from(block[7])];
        }
        for &byte in rest {
            let [low, ..] = self.0.to_le_bytes();
            self.0 = (self.0 >> 8) ^ TABLES[0][usize::from(low ^ byte)];
        }
    }

    pub(crate) fn value(self) -> u32 {
        !self.0
    }
}

const POLYNOMIAL: u32 = 0xEDB8_8320;

/// `TABLES[n][b]`: the contribution of byte `b` followed by `n` zero bytes.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let (mut index, mut byte) = (0, 0);
    while index < 256 {
        let (mut crc, mut bit): (u32, u32) = (byte, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][index] = crc;
        (index, byte) = (index + 1, byte + 1);
    }
    let mut zeros = 1;
    while zeros < 8 {
        index = 0;
        while index < 256 {
            let before = tables[zeros - 1][index];
            tables[zeros][index] = (before >> 8) ^ tables[0][(before & 0xFF) as usize];
            index += 1;
        }
        zeros += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_value_in_any_pieces() {
        for cut in 0..=9 {
            let (head, tail) = b"123456789".split_at(cut);
            let mut crc = Crc32::default();
            crc.update(head);
            crc.update(tail);
            assert_eq!(crc.value(), 0xCBF4_3926, "cut at {cut}");
        }
        assert_eq!(Crc32::default().value(), 0);
    }
}
