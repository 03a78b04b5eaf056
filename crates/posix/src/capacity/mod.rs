//! The space that volumes use, and its limit.

pub(crate) mod dir_lock;
pub(crate) mod kernel;
pub(crate) mod limit;
pub(crate) mod owner_files;
pub(crate) mod project;
pub(crate) mod usage_file;
