//! The running process: signals, the modes of the files that it makes, and what it finds again after an orderly end.

mod files;
mod restart;
mod rig;
mod signals;
