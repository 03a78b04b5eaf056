//! SMB over sockets: literal requests in, replies checked field by field.

mod apple;
mod attr;
mod channels;
mod compound;
mod dir;
mod durable;
mod ea;
mod file;
mod hostile;
mod ioctl;
mod kept;
mod later;
mod lease;
mod lock;
mod negotiate;
mod neighbors;
mod notify;
mod oplock;
mod rename;
mod rig;
mod security;
mod sequence;
mod session;
mod settings;
mod share;
mod streams;
