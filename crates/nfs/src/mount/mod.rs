//! The MOUNT protocol, RFC 1813 Appendix I and RFC 1094 Appendix A.

pub mod wire;
