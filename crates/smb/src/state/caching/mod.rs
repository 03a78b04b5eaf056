//! Leases, oplocks and their breaks (MS-SMB2 §3.3.1.4, §3.3.4.6, §3.3.4.7).

pub(crate) mod breaks;
pub(crate) mod claim_holder;
pub(crate) mod leases;
