//! What QUERY_INFO answers with.

use smb_wire::Encode;

/// A result of QUERY_INFO.
pub(super) struct Info {
    pub(super) bytes: Vec<u8>,
    /// Bytes that a client must have room for; what is behind them may be cut off.
    pub(super) fixed: usize,
    /// There is more than the client had room for.
    pub(super) is_cut: bool,
}

impl Info {
    /// A structure that is told whole.
    pub(super) fn fixed(value: &impl Encode) -> Self {
        let bytes = value.to_bytes();
        Self { fixed: bytes.len(), bytes, is_cut: false }
    }

    /// A structure that ends with a name, of which there may be too much.
    pub(super) fn with_name(value: &impl Encode, fixed: usize) -> Self {
        Self { bytes: value.to_bytes(), fixed, is_cut: false }
    }
}
