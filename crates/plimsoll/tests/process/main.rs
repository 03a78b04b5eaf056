//! The running process: signals and the modes of the files that it makes.

mod files;
mod rig;
mod signals;
