//! The running process: signals, modes of its files, and restarts.

mod files;
mod notify;
mod refused;
mod restart;
mod rig;
mod signals;
