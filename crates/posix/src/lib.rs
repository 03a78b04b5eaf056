//! posix
