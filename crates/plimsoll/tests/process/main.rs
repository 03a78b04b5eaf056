//! The running process: signals, modes of its files, and restarts.

mod files;
mod restart;
mod rig;
mod signals;
