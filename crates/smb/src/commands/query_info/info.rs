//! Results of QUERY_INFO.

use smb_wire::Encode;

pub(super) struct Info {
    pub(super) bytes: Vec<u8>,
    /// The minimum buffer; bytes beyond it may be cut off.
    pub(super) fixed: usize,
    pub(super) is_cut: bool,
}

impl Info {
    /// Encodes a structure that must fit as a whole.
    pub(super) fn fixed(value: &impl Encode) -> Self {
        let bytes = value.to_bytes();
        Self { fixed: bytes.len(), bytes, is_cut: false }
    }

    /// Encodes a structure that ends with a name, which may be cut off.
    pub(super) fn with_name(value: &impl Encode, fixed: usize) -> Self {
        Self { bytes: value.to_bytes(), fixed, is_cut: false }
    }
}
