//! nfs
