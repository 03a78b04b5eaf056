//! Results of QUERY_INFO.

use smb_wire::Encode;

pub(super) struct Info {
    pub(super) bytes: Vec<u8>,
    /// The minimum buffer; bytes beyond it may be cut off.
    pub(super) fixed: usize,
    /// Whether the buffer was too short.
    pub(super) is_cut: bool,
}

impl Info {
    /// A structure that must fit as a whole.
    pub(super) fn fixed(value: &impl Encode) -> Self {
        let bytes = value.to_bytes();
        Self { fixed: bytes.len(), bytes, is_cut: false }
    }

    /// A structure that ends with a name, which may be cut off.
    pub(super) fn with_name(value: &impl Encode, fixed: usize) -> Self {
        Self { bytes: value.to_bytes(), fixed, is_cut: false }
    }
}
